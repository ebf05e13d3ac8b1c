"""Managers of fields, with every write and within bounds; tests/e2e compares them with upstream."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.patching import managers
from kuberth.local.apiserver.patching.field_sets import (
    FieldSet,
    common,
    difference,
    field_set,
    in_order,
    minus,
    paths,
    read_set,
    union,
)
from kuberth.local.apiserver.patching.patching import APPLY_PATCH, MERGE_PATCH
from kuberth.local.apiserver.schema.fields import Field
from tests.manifests import deployment_manifest
from tests.unit.local.apiserver.harness import CoreHarness, refused, run

MARKS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
BELOW: st.SearchStrategy[FieldSet] = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(st.one_of(MARKS, st.just(".")), inner, max_size=3),
    max_leaves=8,
)


def _plain(tree: FieldSet) -> FieldSet:
    """As sets are written: `.` has nothing below, and stands only beside other marks."""
    below = {mark: _plain(node) for mark, node in tree.items() if mark != "."}
    return {".": {}, **below} if "." in tree and below else below


SETS = st.dictionaries(MARKS, BELOW, max_size=4).map(_plain)


@given(SETS, SETS)
def test_sets_of_fields_are_sets(first: FieldSet, second: FieldSet) -> None:
    one, two = set(paths(first)), set(paths(second))
    assert set(paths(union(first, second))) == one | two
    assert set(paths(minus(first, second))) == one - two
    assert set(paths(common(first, second))) == one & two
    assert in_order(first) == first == read_set(first)


TREES = st.recursive(
    st.one_of(st.integers(0, 2), st.text(max_size=1)),
    lambda inner: st.one_of(st.dictionaries(st.sampled_from("abc"), inner), st.lists(inner, max_size=2)),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abc"), TREES), st.dictionaries(st.sampled_from("abc"), TREES))
def test_a_difference_names_every_field_once(old: Obj, new: Obj) -> None:
    found = difference(old, new, Field("any"))
    added, changed, removed = (set(paths(each or {})) for each in found)
    assert not added & changed
    assert not changed & removed
    assert (found == (None, None, None)) == (old == new)
    assert added.isdisjoint(paths(field_set(old, Field("any"))))
    back = difference(new, old, Field("any"))
    assert (back.added, back.changed, back.removed) == (found.removed, found.changed, found.added)


@pytest.mark.parametrize(
    "tree", [[], {"x": {}}, {"f:a": 1}, {"k:nonsense": {}}, {"k:[]": {}}, {"f:a": {"z:b": {}}}, "text"]
)
def test_what_is_no_set_is_none(tree: Any) -> None:
    assert read_set(tree) is None


def config_map(**data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}


async def patch(
    harness: CoreHarness, tree: Obj, manager: str, *, kind: str = MERGE_PATCH, force: bool = False
) -> Obj:
    patched, _ = await harness.core.patch(
        "configmaps",
        "m",
        tree,
        content_type=kind,
        namespace="default",
        field_manager=manager,
        force=force,
    )
    return patched


def owners(obj: Obj) -> list[str]:
    return [entry["manager"] for entry in obj["metadata"].get("managedFields", ())]


def test_older_updaters_are_counted_as_one() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.core.create("configmaps", config_map(a="1"), namespace="default", field_manager="first")
        for number in range(30):
            stored = await patch(harness, {"data": {f"k{number}": "1"}}, f"m{number:02}")
            harness.clock.seconds += 1
        assert len(owners(stored)) == 10
        oldest = stored["metadata"]["managedFields"][0]
        assert oldest["manager"] == "ancient-changes"
        assert oldest["fieldsV1"]["f:data"].keys() >= {"f:a", "f:k0", "f:k19"}

    run(main)


def test_managed_fields_are_not_tracked_for_large_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managers, "MAX_VALUES", 50)

    async def main(harness: CoreHarness) -> None:
        large = config_map(**{f"k{number}": "" for number in range(60)})
        stored = await harness.core.create("configmaps", large, namespace="default", field_manager="first")
        assert owners(stored) == []
        small = await patch(harness, {"data": None}, "second")
        assert owners(small) == []

    run(main)


def test_many_appliers_cannot_own_everything_together() -> None:
    async def main(harness: CoreHarness) -> None:
        wanted = config_map(**{f"k{number}": "" for number in range(15_000)})
        for manager in ("a", "b", "c"):
            await patch(harness, wanted, manager, kind=APPLY_PATCH)
        await refused(patch(harness, wanted, "d", kind=APPLY_PATCH), 413)

    run(main)


def test_a_write_without_a_manager_keeps_managed_fields() -> None:
    async def main(harness: CoreHarness) -> None:
        stored = await harness.core.create(
            "configmaps", config_map(a="1"), namespace="default", field_manager="first"
        )
        after = await patch(harness, {"data": {"b": "2"}}, "")
        assert after["metadata"]["managedFields"] == stored["metadata"]["managedFields"]

    run(main)


def test_a_write_that_changes_nothing_is_none() -> None:
    async def main(harness: CoreHarness) -> None:
        first = await harness.core.create(
            "configmaps", config_map(a="1"), namespace="default", field_manager="first"
        )
        harness.clock.seconds += 5
        assert await patch(harness, {"data": {"a": "1"}}, "second") == first
        applied = await patch(harness, config_map(a="1"), "third", kind=APPLY_PATCH)
        harness.clock.seconds += 5
        assert await patch(harness, config_map(a="1"), "third", kind=APPLY_PATCH) == applied

    run(main)


@pytest.mark.parametrize(
    "resource, changed",
    [("deployments.apps", {"annotations"}), ("replicasets.apps", {"annotations", "labels"})],
    ids=("deployment", "replica-set"),
)
def test_status_writes_change_metadata_as_upstream(resource: str, changed: set[str]) -> None:
    async def main(harness: CoreHarness) -> None:
        body = deployment_manifest()
        del body["kind"]  # a replica set has the same fields
        await harness.core.create(resource, body, namespace="default", field_manager="first")
        patched, _ = await harness.core.patch(
            resource,
            "web",
            {"metadata": {"labels": {"x": "y"}, "annotations": {"a": "b"}}, "status": {"replicas": 1}},
            content_type=MERGE_PATCH,
            namespace="default",
            subresource="status",
            field_manager="second",
        )
        assert {"labels", "annotations"} & patched["metadata"].keys() == changed
        assert patched["status"] == {"replicas": 1}
        entry = patched["metadata"]["managedFields"][-1]
        assert (entry["manager"], entry["subresource"]) == ("second", "status")

    run(main)
