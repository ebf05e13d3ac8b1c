from __future__ import annotations

from pathlib import Path

import pytest

from kuberth.errors import ConfigError
from kuberth.local.hollow.shapes import HOLLOW, load_shapes, make_nodes
from kuberth.programs.up.node_counts import resolve_node_count
from tests.unit.local.apiserver.harness import CoreHarness, run

NOW = "2026-01-01T00:00:00Z"


async def names(harness: CoreHarness) -> list[str]:
    return [node["metadata"]["name"] for node in (await harness.core.list("nodes"))["items"]]


def settled(
    nodes: int | None, *, kept: int = 0, remove: bool = False, shapes: Path | None = None
) -> tuple[int, list[str], list[str]]:
    """The number of nodes to register, the reports, and the nodes from before that are still there."""

    async def main(harness: CoreHarness) -> tuple[int, list[str], list[str]]:
        for node in make_nodes(load_shapes(None, count=kept), now=NOW):
            await harness.core.create("nodes", node)
        theirs = {"name": "theirs", "annotations": {HOLLOW: "true"}}
        await harness.core.create("nodes", {"metadata": theirs})
        reports: list[str] = []
        count = await resolve_node_count(
            harness.core, nodes=nodes, shapes=shapes, remove=remove, now=NOW, report=reports.append
        )
        return count, reports, await names(harness)

    return run(main)


@pytest.mark.parametrize(
    ("nodes", "kept", "count"),
    [
        pytest.param(None, 0, 5, id="a new cluster"),
        pytest.param(None, 10, 0, id="as it was"),
        pytest.param(7, 0, 7, id="a given number"),
        pytest.param(7, 3, 7, id="more than there are"),
        pytest.param(3, 3, 3, id="just as many"),
        pytest.param(0, 0, 0, id="none"),
    ],
)
def test_an_unchanged_count_reports_nothing(nodes: int | None, kept: int, count: int) -> None:
    found, reports, left = settled(nodes, kept=kept, remove=True)
    assert (found, reports) == (count, [])
    assert len(left) == kept + 1


def test_fewer_than_there_are_says_so_and_removes_none() -> None:
    count, reports, left = settled(3, kept=10)
    assert count == 3
    assert reports == [
        "10 hollow nodes are kept from before, 7 more than asked for: all stay; --remove-nodes removes "
        "node-4, node-5, node-6 and 4 more with the pods on them"
    ]
    assert len(left) == 11


def test_fewer_when_asked_for_but_never_nodes_that_people_made() -> None:
    _, reports, left = settled(3, kept=6, remove=True)
    assert reports == ["3 hollow nodes beyond the 3 asked for removed: node-4, node-5, node-6"]
    assert left == ["node-1", "node-2", "node-3", "theirs"]


def test_shapes_count_too(tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.yaml"
    shapes.write_text("[{name: node, count: 1}, {name: gpu, count: 1}]", encoding="utf-8")
    _, reports, left = settled(None, kept=2, remove=True, shapes=shapes)
    assert reports == ["1 hollow node beyond the 2 asked for removed: node-2"]
    assert left == ["node-1", "theirs"]


def test_a_shape_that_the_server_refuses_is_reported_with_its_file(tmp_path: Path) -> None:
    shapes = tmp_path / "shapes.yaml"
    shapes.write_text("[{name: gpu, taints: [{key: a, effect: Nope}]}]", encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r'shapes.yaml: Node "gpu-1" is invalid: .*Unsupported value: "Nope"'
    ):
        settled(None, shapes=shapes)
