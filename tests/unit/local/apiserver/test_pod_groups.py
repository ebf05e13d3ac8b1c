"""Workloads and pod groups on the local API server: served with their gate, judged as upstream does."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.printing.forms import to_table
from tests.unit.local.apiserver.harness import CoreHarness, refused, run

GROUPS, WORKLOADS = "podgroups.scheduling.k8s.io", "workloads.scheduling.k8s.io"
ON = {"GenericWorkload": True}
ALL = {
    **ON,
    "GangScheduling": True,
    "TopologyAwareWorkloadScheduling": True,
    "WorkloadAwarePreemption": True,
    "DRAWorkloadResourceClaims": True,
}
GANG: Obj = {"gang": {"minCount": 3}}


def group(name: str = "g", **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": GANG, **spec}}


def workload(*templates: str, **spec: Any) -> Obj:
    made = [{"name": name, "schedulingPolicy": GANG} for name in templates]
    return {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": made, **spec}}


async def create(harness: CoreHarness, body: Obj, resource: str = GROUPS) -> Obj:
    return await harness.core.create(resource, body, namespace="default")


def test_without_the_gate_there_is_no_such_resource() -> None:
    async def test(harness: CoreHarness) -> None:
        assert harness.core.resources.by_id(GROUPS) is None
        pod = await harness.pod("p", schedulingGroup={"podGroupName": "g"})
        assert "schedulingGroup" not in pod["spec"]

    run(test)


def test_with_the_gate_pods_keep_their_group() -> None:
    async def test(harness: CoreHarness) -> None:
        pod = await harness.pod("p", schedulingGroup={"podGroupName": "g"})
        assert pod["spec"]["schedulingGroup"] == {"podGroupName": "g"}
        other = {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": "other"}}}
        await refused(harness.core.update("pods", "p", other, namespace="default"), 422)
        for wrong in ({}, {"podGroupName": ""}, {"podGroupName": "No Name"}):
            await refused(harness.pod("q", schedulingGroup=wrong), 422)

    run(test, feature_gates=ON)


def test_a_group_is_stored_without_what_its_gates_do_not_allow() -> None:
    async def test(harness: CoreHarness) -> None:
        made = await create(
            harness,
            {
                **group(
                    schedulingConstraints={"topology": [{"key": "zone"}]},
                    disruptionMode="PodGroup",
                    priority=5,
                    resourceClaims=[{"name": "c", "resourceClaimName": "c"}],
                ),
                "status": {"conditions": [{"type": "Mine"}]},
            },
        )
        assert made["spec"] == {"schedulingPolicy": GANG}
        assert not made.get("status")
        assert made["metadata"]["generation"] == 1

    run(test, feature_gates=ON)


def test_priority_comes_from_the_class() -> None:
    async def test(harness: CoreHarness) -> None:
        classes = "priorityclasses.scheduling.k8s.io"
        await harness.core.create(classes, {"metadata": {"name": "high"}, "value": 9})
        made = await create(harness, group(priorityClassName="high"))
        assert made["spec"]["priority"] == 9
        error = await refused(create(harness, group("other", priorityClassName="high", priority=5)), 403)
        assert "priority set in the pod group (5) must match the priority computed (9)" in str(error)
        error = await refused(create(harness, group("other", priorityClassName="none")), 403)
        assert "no PriorityClass with name none was found" in str(error)
        assert (await create(harness, group("plain")))["spec"]["priority"] == 0

    run(test, feature_gates=ALL)


def reference(name: str, template: str) -> Obj:
    return {"workload": {"workloadName": name, "podGroupTemplateName": template}}


def test_a_group_names_a_template_that_exists() -> None:
    async def test(harness: CoreHarness) -> None:
        await create(harness, workload("t"), WORKLOADS)
        made = await create(harness, group(podGroupTemplateRef=reference("w", "t")))
        assert made["spec"]["podGroupTemplateRef"] == reference("w", "t")
        error = await refused(create(harness, group("x", podGroupTemplateRef=reference("no", "t"))), 403)
        assert 'PodGroup rejected: Workload "no" not found' in str(error)
        error = await refused(create(harness, group("x", podGroupTemplateRef=reference("w", "no"))), 403)
        assert 'PodGroup rejected: PodGroupTemplate "no" not found in Workload "w"' in str(error)

    run(test, feature_gates=ON)


@pytest.mark.parametrize(
    "spec, field",
    [
        ({"schedulingPolicy": {}}, "spec.schedulingPolicy"),
        ({"schedulingPolicy": {"basic": {}, **GANG}}, "spec.schedulingPolicy"),
        ({"schedulingPolicy": {"gang": {}}}, "spec.schedulingPolicy.gang.minCount"),
        ({"schedulingPolicy": {"gang": {"minCount": -1}}}, "spec.schedulingPolicy.gang.minCount"),
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "spec.schedulingConstraints.topology",
        ),
        (
            {"schedulingConstraints": {"topology": [{"key": "no key!"}]}},
            "spec.schedulingConstraints.topology[0].key",
        ),
        ({"disruptionMode": "All"}, "spec.disruptionMode"),
        (
            {"resourceClaims": [{"name": f"c{n}", "resourceClaimName": "c"} for n in range(5)]},
            "spec.resourceClaims",
        ),
        ({"resourceClaims": [{"name": "c"}]}, "spec.resourceClaims[0]"),
        ({"podGroupTemplateRef": {}}, "spec.podGroupTemplateRef"),
    ],
)
def test_what_is_wrong_with_a_group(spec: Obj, field: str) -> None:
    async def test(harness: CoreHarness) -> None:
        error = await refused(create(harness, group(**spec)), 422)
        assert field in [cause.field for cause in error.causes]

    run(test, feature_gates=ALL)


def test_a_group_never_changes_what_it_is_for() -> None:
    async def test(harness: CoreHarness) -> None:
        made = await create(harness, group())
        labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
        made = await harness.core.update(GROUPS, "g", labelled, namespace="default")
        changed = {**made, "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}
        error = await refused(harness.core.update(GROUPS, "g", changed, namespace="default"), 422)
        assert [cause.field for cause in error.causes] == ["spec.schedulingPolicy"]
        assert "field is immutable" in str(error)

    run(test, feature_gates=ON)


@pytest.mark.parametrize(
    "body, field",
    [
        (workload(), "spec.podGroupTemplates"),
        (workload(*(f"t{n}" for n in range(9))), "spec.podGroupTemplates"),
        (workload("t", "t"), "spec.podGroupTemplates[1]"),
        (workload("No"), "spec.podGroupTemplates[0].name"),
        (workload("t", controllerRef={"kind": "Job"}), "spec.controllerRef.name"),
    ],
)
def test_what_is_wrong_with_a_workload(body: Obj, field: str) -> None:
    async def test(harness: CoreHarness) -> None:
        error = await refused(create(harness, body, WORKLOADS), 422)
        assert field in [cause.field for cause in error.causes]

    run(test, feature_gates=ALL)


def test_the_status_is_written_through_its_own_door_and_shown() -> None:
    async def test(harness: CoreHarness) -> None:
        await create(harness, workload("t"), WORKLOADS)
        await create(harness, group(podGroupTemplateRef=reference("w", "t")))
        await create(harness, group("b", schedulingPolicy={"basic": {}}))

        async def cells(name: str) -> list[Any]:
            row = harness.core.resources.by_id(GROUPS)
            assert row is not None
            found = await harness.core.get(GROUPS, name, namespace="default")
            table = to_table(row, [found], None, now=harness.clock.now_ns())
            return list(table["rows"][0]["cells"][:4])

        assert await cells("g") == ["g", "Gang", "w", "Pending"]
        assert await cells("b") == ["b", "Basic", "<none>", "Pending"]
        for status, shown in (("False", "Unschedulable"), ("True", "Scheduled")):
            condition = {
                "type": "PodGroupScheduled",
                "status": status,
                "reason": "Any",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            patch = {"status": {"conditions": [condition]}, "spec": {"schedulingPolicy": {"basic": {}}}}
            await harness.core.patch(
                GROUPS,
                "g",
                patch,
                namespace="default",
                subresource="status",
                content_type="application/strategic-merge-patch+json",
            )
            assert await cells("g") == ["g", "Gang", "w", shown]

    run(test, feature_gates=ON)


SHARED: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}


async def write_status(harness: CoreHarness, *statuses: Obj) -> Obj:
    """Write a group's claim statuses, and return what its status says then."""
    patch = {"status": {"resourceClaimStatuses": [*statuses]}}
    written, _ = await harness.core.patch(
        GROUPS,
        "g",
        patch,
        namespace="default",
        subresource="status",
        content_type="application/merge-patch+json",
    )
    found: Obj = written.get("status") or {}
    return found


def test_the_claims_made_for_a_group_stand_in_its_status() -> None:
    async def test(harness: CoreHarness) -> None:
        await create(harness, group(**SHARED))
        made = {"name": "gpu", "resourceClaimName": "g-gpu-x"}
        assert await write_status(harness, made) == {"resourceClaimStatuses": [made]}
        error = await refused(write_status(harness, {"name": "nic"}), 422)
        why = 'name: Invalid value: "nic": must match the name of an entry in `spec.resourceClaims`'
        assert f"status.resourceClaimStatuses[0].{why}" in str(error)
        error = await refused(write_status(harness, {"name": "gpu", "resourceClaimName": "No Name"}), 422)
        assert "status.resourceClaimStatuses[0].resourceClaimName: Invalid value" in str(error)
        error = await refused(write_status(harness, *[{"name": "gpu"}] * 5), 422)
        assert "status.resourceClaimStatuses: Too many: 5: must have at most 4 items" in str(error)

    run(test, feature_gates=ALL)


def test_with_the_gate_off_they_do_not() -> None:
    async def test(harness: CoreHarness) -> None:
        await create(harness, group(**SHARED))
        assert await write_status(harness, {"name": "gpu", "resourceClaimName": "g-gpu-x"}) == {}

    run(test, feature_gates=ON)
