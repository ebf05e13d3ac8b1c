"""Patches of all four kinds, as tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.patching.patching import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    json_patch,
    merge_patch,
    strategic_merge,
)
from kuberth.local.apiserver.status_errors import StatusError
from tests.manifests import deployment_manifest, pod_manifest
from tests.unit.local.apiserver.harness import CoreHarness, refused, run

A, B, C = ({"name": name, "image": f"{name}:1"} for name in "abc")


def pod(**spec: Any) -> Obj:
    return {"spec": spec}


@pytest.mark.parametrize(
    "target, patch, expected",
    (
        pytest.param(
            pod(containers=[A, B]),
            pod(containers=[{"name": "b", "image": "b:2"}]),
            pod(containers=[A, {"name": "b", "image": "b:2"}]),
            id="merged by name",
        ),
        pytest.param(pod(containers=[A]), pod(containers=[B]), pod(containers=[B, A]), id="new ones first"),
        pytest.param(
            pod(containers=[A, B]),
            pod(containers=[{"name": "a", "$patch": "delete"}]),
            pod(containers=[B]),
            id="deleted",
        ),
        pytest.param(
            pod(containers=[A, B]),
            pod(containers=[C, {"$patch": "replace"}]),
            pod(containers=[C]),
            id="list replaced",
        ),
        pytest.param(
            pod(nodeSelector={"x": "y"}, hostname="h"),
            pod(nodeSelector={"$patch": "replace", "a": "b"}),
            pod(nodeSelector={"a": "b"}, hostname="h"),
            id="map replaced",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b", "c"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"], "finalizers": ["d", "a"]}},
            {"metadata": {"finalizers": ["d", "a", "c"]}},
            id="primitives",
        ),
        pytest.param(
            pod(containers=[A, B, C]),
            pod(
                **{
                    "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                    "containers": [{"name": "c", "image": "c:2"}],
                }
            ),
            pod(containers=[B, {"name": "c", "image": "c:2"}, A]),
            id="ordered",
        ),
        pytest.param(
            pod(tolerations=[{"key": "a"}]),
            pod(tolerations=[{"key": "b"}]),
            pod(tolerations=[{"key": "b"}]),
            id="atomic list",
        ),
        pytest.param(
            pod(volumes=[{"name": "v", "emptyDir": {}}]),
            pod(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]),
            pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
            id="retainKeys",
        ),
        pytest.param(pod(hostname="h"), pod(hostname=None), pod(), id="null deletes"),
        pytest.param(
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}},
            {
                "status": {
                    "conditions": [
                        {"type": "PodScheduled", "status": "False"},
                        {"type": "Ready", "status": "True"},
                    ]
                }
            },
            id="conditions",
        ),
    ),
)
def test_strategic_merge(target: Obj, patch: Obj, expected: Obj) -> None:
    before = repr(target)
    assert strategic_merge(target, patch, type_name="core.v1.Pod") == expected
    assert repr(target) == before


@pytest.mark.parametrize(
    "patch",
    (
        pod(containers=[{"image": "x"}]),
        pod(containers=[1]),
        {"$patch": "explode"},
        {"spec": {"$retainKeys": 1}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": 1}},
    ),
)
def test_strategic_merge_refusals(patch: Obj) -> None:
    with pytest.raises(StatusError) as caught:
        strategic_merge(pod(containers=[A]), patch, type_name="core.v1.Pod")
    assert caught.value.code == 400


@pytest.mark.parametrize(
    "target, patch, expected",
    (
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ),
)
def test_merge_patch(target: Obj, patch: Obj, expected: Obj) -> None:
    """The examples of RFC 7396."""
    assert merge_patch(target, patch) == expected


@pytest.mark.parametrize(
    "document, patch, expected",
    (
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"foo": "bar", "baz": "qux"}),
        ({"foo": ["a", "b"]}, [{"op": "add", "path": "/foo/1", "value": "x"}], {"foo": ["a", "x", "b"]}),
        ({"foo": ["a"]}, [{"op": "add", "path": "/foo/-", "value": "x"}], {"foo": ["a", "x"]}),
        ({"foo": ["a", "b"]}, [{"op": "remove", "path": "/foo/0"}], {"foo": ["b"]}),
        ({"foo": "bar"}, [{"op": "replace", "path": "/foo", "value": 1}], {"foo": 1}),
        (
            {"a": {"b": 1}, "c": {}},
            [{"op": "move", "from": "/a/b", "path": "/c/d"}],
            {"a": {}, "c": {"d": 1}},
        ),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        (
            {"a/b": 1, "~": 2},
            [{"op": "remove", "path": "/a~1b"}, {"op": "test", "path": "/~0", "value": 2}],
            {"~": 2},
        ),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
    ),
)
def test_json_patch(document: Obj, patch: Any, expected: Obj) -> None:
    """Cases of RFC 6902."""
    before = repr(document)
    assert json_patch(document, patch) == expected
    assert repr(document) == before


@pytest.mark.parametrize(
    "patch, code",
    (
        ({}, 400),
        ([1], 400),
        ([{"op": "add", "path": "x", "value": 1}], 400),
        ([{"op": "add", "path": "/x"}], 400),
        ([{"op": "jump", "path": "/x"}], 400),
        ([{"op": "remove", "path": "/nope"}], 422),
        ([{"op": "replace", "path": "/nope", "value": 1}], 422),
        ([{"op": "add", "path": "/l/9", "value": 1}], 422),
        ([{"op": "add", "path": "/l/01x", "value": 1}], 422),
        ([{"op": "test", "path": "/n", "value": True}], 422),
        ([{"op": "move", "from": "/m", "path": "/m/x"}], 422),
        ([{"op": "copy", "from": "", "path": "/l/-"}] * 40, 413),
    ),
)
def test_json_patch_refusals(patch: Any, code: int) -> None:
    with pytest.raises(StatusError) as caught:
        json_patch({"l": [1], "n": 1, "m": {}}, patch)
    assert caught.value.code == code


LONG = [0] * 300_000
DEEP: Any = 1
for _ in range(99):
    DEEP = {"a": DEEP}


@pytest.mark.parametrize(
    "document, operation",
    [
        pytest.param({"l": LONG}, {"op": "move", "from": "/l/0", "path": "/l/-"}, id="moves-in-a-long-list"),
        pytest.param({"l": LONG}, {"op": "add", "path": "/l/0", "value": 1}, id="adds-to-a-long-list"),
        pytest.param({"l": LONG}, {"op": "test", "path": "/l", "value": LONG}, id="tests-of-a-long-list"),
        pytest.param({"n": DEEP}, {"op": "test", "path": "/n" + "/a" * 99, "value": 1}, id="long-paths"),
    ],
)
def test_a_json_patch_that_would_hold_everybody_up_is_refused(document: Obj, operation: Obj) -> None:
    with pytest.raises(StatusError, match="takes too long to apply") as caught:
        json_patch(document, [operation] * 10_000)
    assert caught.value.code == 413


def test_ten_thousand_operations_of_the_ordinary_kind_are_fine() -> None:
    patch = [{"op": "add", "path": f"/metadata/labels/l{number}", "value": "x"} for number in range(10_000)]
    assert len(json_patch({"metadata": {"labels": {}}}, patch)["metadata"]["labels"]) == 10_000


def test_equal_numbers_are_equal_however_they_are_written() -> None:
    assert json_patch({"a": [1]}, [{"op": "test", "path": "/a", "value": [1.0]}]) == {"a": [1]}


VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from("abc"), VALUES), st.dictionaries(st.sampled_from("abc"), VALUES))
def test_without_known_lists_a_strategic_merge_is_a_merge_patch(target: Obj, patch: Obj) -> None:
    assert strategic_merge(target, patch, type_name="") == merge_patch(target, patch)


async def apply(
    harness: CoreHarness, body: Obj, *, manager: str, name: str = "web", force: bool = False
) -> tuple[Obj, bool]:
    return await harness.core.patch(
        "deployments.apps",
        name,
        {"apiVersion": "apps/v1", "kind": "Deployment", **body},
        content_type=APPLY_PATCH,
        namespace="default",
        field_manager=manager,
        force=force,
    )


def test_server_side_apply_creates_merges_and_forgets() -> None:
    async def main(harness: CoreHarness) -> None:
        full = deployment_manifest(replicas=2)
        full["metadata"]["labels"] = {"a": "1", "b": "2"}
        created, new = await apply(harness, full, manager="alice")
        assert new
        (entry,) = created["metadata"]["managedFields"]
        assert (entry["manager"], entry["operation"], entry["fieldsType"]) == ("alice", "Apply", "FieldsV1")
        assert entry["fieldsV1"]["f:spec"]["f:replicas"] == {}
        assert 'k:{"name":"main"}' in entry["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
        again, new = await apply(harness, full, manager="alice")
        assert not new
        assert again == created
        full["metadata"]["labels"] = {"a": "1"}
        fewer, _ = await apply(harness, full, manager="alice")
        assert fewer["metadata"]["labels"] == {"a": "1"}
        assert fewer["metadata"]["generation"] == 1

    run(main)


def test_server_side_apply_shares_and_conflicts() -> None:
    async def main(harness: CoreHarness) -> None:
        await apply(harness, deployment_manifest(replicas=2), manager="alice")
        sidecar = {"name": "side", "image": "s:1"}
        body = {"spec": {"template": {"spec": {"containers": [sidecar]}}}}
        both, _ = await apply(harness, body, manager="bob")
        containers = both["spec"]["template"]["spec"]["containers"]
        assert [each["name"] for each in containers] == ["main", "side"]
        conflict = await refused(apply(harness, {"spec": {"replicas": 5}}, manager="bob"), 409)
        assert str(conflict) == ('Apply failed with 1 conflict: conflict with "alice": .spec.replicas')
        assert conflict.causes[0].reason == "FieldManagerConflict"
        forced, _ = await apply(harness, {"spec": {"replicas": 5}}, manager="bob", force=True)
        assert forced["spec"]["replicas"] == 5
        # Bob no longer applies the sidecar, so it goes; the replicas are his now.
        assert [each["name"] for each in forced["spec"]["template"]["spec"]["containers"]] == ["main"]
        await refused(apply(harness, deployment_manifest(replicas=2), manager="alice"), 409)
        agreed, _ = await apply(harness, deployment_manifest(replicas=5), manager="alice")
        assert len(agreed["metadata"]["managedFields"]) == 2

    run(main)


def test_server_side_apply_refusals() -> None:
    async def main(harness: CoreHarness) -> None:
        await refused(apply(harness, deployment_manifest(), manager=""), 422)
        await refused(apply(harness, deployment_manifest("other"), manager="a"), 400)
        owned = deployment_manifest()
        owned["metadata"]["managedFields"] = [{"manager": "x"}]
        await refused(apply(harness, owned, manager="a"), 400)
        odd = deployment_manifest()
        odd["spec"]["template"]["spec"]["containers"] = [{"name": ["\ud800"]}]
        await refused(apply(harness, odd, manager="a"), 400)

    run(main)


def test_half_a_character_in_a_key_is_replaced_as_anywhere_else() -> None:
    async def main(harness: CoreHarness) -> None:
        wanted = deployment_manifest()
        wanted["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A\ud800", "value": "b"}]
        stored, _ = await apply(harness, wanted, manager="a")
        (container,) = stored["spec"]["template"]["spec"]["containers"]
        assert container["env"][0]["name"] == "A?"

    run(main)


def test_thousands_of_containers_can_be_applied_and_tens_of_thousands_are_refused() -> None:
    def body(containers: int) -> Obj:
        wanted = deployment_manifest()
        wanted["spec"]["template"]["spec"]["containers"] = [
            {"name": f"c{number}", "image": "i", "ports": [{"containerPort": 1}]}
            for number in range(containers)
        ]
        return wanted

    async def main(harness: CoreHarness) -> None:
        for manager in ("a", "a", "b"):
            stored, _ = await apply(harness, body(3000), manager=manager)
        assert len(stored["metadata"]["managedFields"]) == 2
        await refused(apply(harness, body(10_000), manager="a"), 413)

    run(main)


def test_patches_go_through_the_rules_of_an_update() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.core.create("pods", pod_manifest(), namespace="default")
        patch = {"spec": {"hostname": "other"}}
        error = await refused(
            harness.core.patch("pods", "p", patch, content_type=MERGE_PATCH, namespace="default"), 422
        )
        assert "pod updates may not change fields other than" in str(error)
        stale = {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}
        await refused(
            harness.core.patch("pods", "p", stale, content_type=MERGE_PATCH, namespace="default"), 409
        )
        await refused(
            harness.core.patch("pods", "p", {"spec": 5}, content_type=MERGE_PATCH, namespace="default"), 400
        )
        status = [{"op": "add", "path": "/status/phase", "value": "Running"}]
        patched, _ = await harness.core.patch(
            "pods", "p", status, content_type=JSON_PATCH, namespace="default"
        )
        assert patched["status"]["phase"] == "Pending"
        patched, _ = await harness.core.patch(
            "pods", "p", status, content_type=JSON_PATCH, namespace="default", subresource="status"
        )
        assert patched["status"]["phase"] == "Running"

    run(main)
