from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.core import Node
from kuberth.plugins.image_locality.plugin import normalized_image_name
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.harness import assert_views_agree, evaluator

PLUGIN = "ImageLocality"
MIB = 1024 * 1024


def with_images(name: str, **mebibytes: int) -> Node:
    return make_node(
        name, images=[{"names": [f"{key}:1"], "sizeBytes": size * MIB} for key, size in mebibytes.items()]
    )


def scores(pod_spec: dict[str, Any], *nodes: Node) -> dict[str, int]:
    return dict(evaluator(PLUGIN, *nodes).evaluate(make_pod("p", **pod_spec)).scores[PLUGIN])


def containers(*images: str) -> list[dict[str, str]]:
    return [{"name": f"c{index}", "image": image} for index, image in enumerate(images)]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("web", "web:latest"),
        ("web:1", "web:1"),
        ("registry:5000/web", "registry:5000/web:latest"),
        ("registry:5000/web:2", "registry:5000/web:2"),
        ("web@sha256:0a", "web@sha256:0a"),
        ("", ":latest"),
    ],
)
def test_a_missing_tag_means_latest(image: str, expected: str) -> None:
    assert normalized_image_name(image) == expected


@pytest.mark.parametrize(
    ("mebibytes", "expected"),
    [
        # One container: 23 MiB is worth nothing, 1000 MiB everything. On one of two nodes half the size
        # counts: 100 * (size / 2 - 23) / 977.
        pytest.param(46, 0, id="at the lower limit"),
        pytest.param(66, 1, id="100 * 10 / 977"),
        pytest.param(1000, 48, id="100 * 477 / 977"),
        pytest.param(2000, 100, id="at the upper limit"),
        pytest.param(9000, 100, id="beyond the upper limit"),
    ],
)
def test_size_counts_by_the_share_of_nodes_that_have_the_image(mebibytes: int, expected: int) -> None:
    given = scores({"containers": containers("web:1")}, with_images("has", web=mebibytes), make_node("none"))
    assert given == {"has": expected, "none": 0}


def test_more_nodes_with_the_image_count_more() -> None:
    nodes = [with_images("a", web=1000), with_images("b", web=1000), with_images("c"), with_images("d")]
    # Half of the nodes: 100 * (500 - 23) / 977.
    assert scores({"containers": containers("web:1")}, *nodes) == {"a": 48, "b": 48, "c": 0, "d": 0}


def test_all_containers_count_and_raise_the_limit() -> None:
    spec = {"containers": containers("web:1", "db:1"), "initContainers": containers("web:1")}
    # The image is wanted twice: 100 * (2 * 1000 - 23) / (3000 - 23).
    assert scores(spec, with_images("a", web=1000)) == {"a": 66}


def test_image_volumes_count_and_do_not_raise_the_limit() -> None:
    spec = {
        "containers": containers("none:1"),
        "volumes": [{"name": "v", "image": {"reference": "data:1"}}, {"name": "e", "emptyDir": {}}],
    }
    # 100 * (500 - 23) / 977.
    assert scores(spec, with_images("a", data=500)) == {"a": 48}


def test_the_image_is_found_by_its_normalized_name() -> None:
    node = make_node("a", images=[{"names": ["web@sha256:1", "web:latest"], "sizeBytes": 1000 * MIB}])
    assert scores({"containers": containers("web")}, node) == {"a": 100}


def test_nodes_that_do_not_pass_count_among_those_that_have_the_image() -> None:
    judge = evaluator(PLUGIN, with_images("a", web=1000), with_images("b", web=1000))
    judge.cluster.remove_node("b")
    assert judge.evaluate(make_pod("p", containers=containers("web:1"))).scores[PLUGIN] == {"a": 100}


def test_all_views_say_the_same() -> None:
    nodes = [with_images(f"n{i}", **{"web": 300 * i, "db": 70} if i % 3 else {}) for i in range(8)]
    pod = make_pod("p", containers=containers("web:1", "db:1"))
    assert_views_agree(evaluator(PLUGIN, *nodes), PLUGIN, pod)
