"""The verbs: create, read, list, watch, update, delete, and the subresources."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.schema.catalogue import ROWS
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.verbs.bodies import FieldValidation
from tests.manifests import deployment_manifest, pod_manifest
from tests.unit.local.apiserver.harness import CoreHarness, refused, run

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"


def names(listed: Obj) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


async def collect(events: Any) -> list[tuple[str, str]]:
    return [(kind, obj["metadata"].get("name", "")) async for kind, obj in events]


def test_a_cluster_starts_with_its_namespaces_and_system_priorities() -> None:
    async def main(harness: CoreHarness) -> None:
        assert names(await harness.core.list("namespaces")) == [
            "default",
            "kube-node-lease",
            "kube-public",
            "kube-system",
        ]
        classes = await harness.core.list("priorityclasses.scheduling.k8s.io")
        assert {item["metadata"]["name"]: item["value"] for item in classes["items"]} == {
            "system-cluster-critical": 2_000_000_000,
            "system-node-critical": 2_000_001_000,
        }

    run(main)


def test_every_row_stores_and_lists() -> None:
    async def main(harness: CoreHarness) -> None:
        for row in ROWS:
            listed = await harness.core.list(row.id)
            assert listed["kind"] == row.list_kind
            assert row.schema
            assert row.columns

    run(main)


def test_create_sets_what_the_server_owns() -> None:
    async def main(harness: CoreHarness) -> None:
        body = pod_manifest()
        body["metadata"] |= {"uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z", "generation": 9}
        body["status"] = {"phase": "Running"}
        pod = await harness.core.create("pods", body, namespace="default")
        assert pod["metadata"]["uid"] != "mine"
        assert pod["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"
        assert pod["metadata"]["generation"] == 1
        assert pod["metadata"]["namespace"] == "default"
        assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
        assert body["metadata"]["uid"] == "mine"  # what was sent is not touched
        assert await harness.core.get("pods", "p", namespace="default") == pod

    run(main)


def test_generate_name() -> None:
    async def main(harness: CoreHarness) -> None:
        body = pod_manifest()
        body["metadata"] = {"generateName": "web-"}
        first = await harness.core.create("pods", body, namespace="default")
        second = await harness.core.create("pods", body, namespace="default")
        found = {first["metadata"]["name"], second["metadata"]["name"]}
        assert len(found) == 2
        assert all(name.startswith("web-") and len(name) == 9 for name in found)

    run(main)


def test_create_refusals() -> None:
    async def main(harness: CoreHarness) -> None:
        core = harness.core
        await harness.pod()
        taken = await refused(core.create("pods", pod_manifest(), namespace="default"), 409)
        assert (taken.reason, str(taken)) == ("AlreadyExists", 'pods "p" already exists')
        missing = await refused(core.create("pods", pod_manifest(), namespace="nowhere"), 404)
        assert str(missing) == 'namespaces "nowhere" not found'
        await refused(core.create("pods", {**pod_manifest(), "kind": "Node"}, namespace="default"), 400)
        await refused(core.create("pods", {**pod_manifest(), "apiVersion": "v2"}, namespace="default"), 400)
        await refused(core.create("pods", [], namespace="default"), 400)
        elsewhere = pod_manifest("q")
        elsewhere["metadata"]["namespace"] = "kube-system"
        wrong = await refused(core.create("pods", elsewhere, namespace="default"), 400)
        assert "does not match the namespace" in str(wrong)
        await refused(core.create("pots", pod_manifest(), namespace="default"), 404)
        strict = pod_manifest("q")
        strict["spec"]["contaners"] = []
        strictly = core.create(
            "pods", strict, namespace="default", field_validation=FieldValidation("Strict")
        )
        assert 'unknown field "spec.contaners"' in str(await refused(strictly, 400))
        warning = FieldValidation("Warn")
        await core.create("pods", strict, namespace="default", field_validation=warning, dry_run=True)
        assert warning.warnings == ['unknown field "spec.contaners"']
        assert "contaners" not in (await core.create("pods", strict, namespace="default"))["spec"]

    run(main)


def test_dry_run_changes_nothing() -> None:
    async def main(harness: CoreHarness) -> None:
        before = harness.store.revision
        pod = await harness.core.create("pods", pod_manifest(), namespace="default", dry_run=True)
        assert pod["spec"]["schedulerName"] == "default-scheduler"
        await refused(harness.core.get("pods", "p", namespace="default"), 404)
        await harness.pod()
        await harness.core.patch(
            "pods",
            "p",
            {"metadata": {"labels": {"a": "b"}}},
            content_type=MERGE,
            namespace="default",
            dry_run=True,
        )
        await harness.core.delete("pods", "p", namespace="default", dry_run=True)
        await harness.core.delete("pods", "p", namespace="default", options={"dryRun": ["All"]})
        assert "labels" not in (await harness.core.get("pods", "p", namespace="default"))["metadata"]
        assert harness.store.revision == before + 1

    run(main)


def test_update_checks_the_version_and_keeps_the_status() -> None:
    async def main(harness: CoreHarness) -> None:
        deployment = await harness.core.create("deployments.apps", deployment_manifest(), namespace="default")
        assert deployment["metadata"]["generation"] == 1
        changed = {**deployment, "spec": {**deployment["spec"], "replicas": 3}, "status": {"replicas": 9}}
        updated = await harness.core.update("deployments.apps", "web", changed, namespace="default")
        assert updated["metadata"]["generation"] == 2
        assert "replicas" not in updated["status"]
        stale = await refused(
            harness.core.update("deployments.apps", "web", changed, namespace="default"), 409
        )
        assert "the object has been modified" in str(stale)
        status = {**updated, "spec": {}, "status": {"replicas": 3}}
        reported = await harness.core.update(
            "deployments.apps", "web", status, namespace="default", subresource="status"
        )
        assert reported["status"] == {"replicas": 3}
        assert reported["spec"]["replicas"] == 3
        assert reported["metadata"]["generation"] == 2
        # Nothing changes: no new version.
        same = await harness.core.update("deployments.apps", "web", reported, namespace="default")
        assert same["metadata"]["resourceVersion"] == reported["metadata"]["resourceVersion"]
        other = {**reported, "metadata": {**reported["metadata"], "uid": "another"}}
        await refused(harness.core.update("deployments.apps", "web", other, namespace="default"), 409)
        await refused(harness.core.update("deployments.apps", "wep", reported, namespace="default"), 404)
        renamed = {**reported, "metadata": {**reported["metadata"], "name": "x"}}
        await refused(harness.core.update("deployments.apps", "web", renamed, namespace="default"), 400)

    run(main)


def test_a_namespace_named_by_an_object_that_has_none_is_left_out() -> None:
    async def main(harness: CoreHarness) -> None:
        core, kind = harness.core, "clusterroles.rbac.authorization.k8s.io"
        made = await core.create(kind, {"metadata": {"name": "r", "namespace": "default"}, "rules": []})
        assert "namespace" not in made["metadata"]
        metadata = {**made["metadata"], "namespace": "elsewhere", "labels": {"a": "b"}}
        changed = await core.update(kind, "r", {**made, "metadata": metadata})
        assert (changed["metadata"]["labels"], changed["metadata"].get("namespace")) == ({"a": "b"}, None)
        patch = {"metadata": {"namespace": "elsewhere", "labels": {"a": "c"}}}
        patched = (await core.patch(kind, "r", patch, content_type=MERGE))[0]
        assert (patched["metadata"]["labels"], patched["metadata"].get("namespace")) == ({"a": "c"}, None)

    run(main)


@pytest.mark.parametrize("verb", ["put", "patch"])
def test_a_write_of_the_status_may_change_the_metadata_beside_it(verb: str) -> None:
    async def main(harness: CoreHarness) -> None:
        core = harness.core
        await harness.pod("p", labels={"app": "x"})
        labelled = {**deployment_manifest(), "metadata": {"name": "web", "labels": {"app": "x"}}}
        await core.create("deployments.apps", labelled, namespace="default")
        await core.create("customresourcedefinitions.apiextensions.k8s.io", CRD)
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        await core.create("widgets.example.com", widget, namespace="default")
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
        changed = {"annotations": {"seen": "yes"}, "labels": {"new": "1"}, "ownerReferences": [owner]}

        async def report(resource: str, name: str) -> Obj:
            patch = {"metadata": changed, "status": {"message": "m"}, "spec": {"paused": True}}
            where: Any = {"namespace": "default", "subresource": "status"}
            if verb == "patch":
                return (await core.patch(resource, name, patch, content_type=MERGE, **where))[0]
            present = await core.get(resource, name, namespace="default")
            metadata = {**present["metadata"], **changed}
            body = {**present, **patch, "metadata": metadata}
            return await core.update(resource, name, body, **where)

        pod = (await report("pods", "p"))["metadata"]
        assert pod["annotations"] == {"seen": "yes"}
        assert pod["labels"]["new"] == "1"
        assert "ownerReferences" not in pod
        deployment = await report("deployments.apps", "web")
        assert deployment["metadata"]["annotations"] == {"seen": "yes"}
        assert deployment["metadata"]["labels"] == {"app": "x"}
        assert deployment["metadata"]["generation"] == 1
        assert "paused" not in deployment["spec"]
        custom = await report("widgets.example.com", "w")
        assert custom["status"] == {"message": "m"}
        assert not set(custom["metadata"]) & set(changed)

    run(main)


def test_a_report_cannot_leave_out_what_the_server_knows() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.pod("p", bound="n1")
        where: Any = {"namespace": "default", "subresource": "status"}
        present = await harness.core.get("pods", "p", namespace="default")
        seen = {"type": "Ready", "status": "True", "observedGeneration": 1}
        body = {**present, "status": {"observedGeneration": 1, "conditions": [seen]}}
        await harness.core.update("pods", "p", body, **where)
        body = {**present, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        del body["metadata"]["resourceVersion"]
        found = (await harness.core.update("pods", "p", body, **where))["status"]
        assert (found["qosClass"], found["observedGeneration"]) == ("BestEffort", 1)
        assert found["conditions"] == [{"type": "Ready", "status": "False", "observedGeneration": 1}]

    run(main)


def test_events_are_selected_by_their_source() -> None:
    async def main(harness: CoreHarness) -> None:
        about = {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"}
        recorded: Obj = {"involvedObject": about, "type": "Normal", "reason": "R"}
        old = {"metadata": {"name": "old"}, **recorded, "source": {"component": "kubelet"}}
        new = {
            "metadata": {"name": "new"},
            "regarding": about,
            "type": "Normal",
            "reason": "R",
            "action": "Binding",
            "reportingController": "default-scheduler",
            "reportingInstance": "here",
            "eventTime": "2023-11-14T22:13:20.000000Z",
        }
        await harness.core.create("events", old, namespace="default")
        await harness.core.create("events.events.k8s.io", new, namespace="default")
        for selector, expected in (
            ("source=kubelet", ["old"]),
            ("source=default-scheduler", ["new"]),
            ("source!=kubelet", ["new"]),
            ("reportingComponent=default-scheduler", ["new"]),
            ("involvedObject.uid=u,involvedObject.kind=Pod,reason=R,type=Normal", ["new", "old"]),
            ("involvedObject.name=q", []),
        ):
            assert names(await harness.core.list("events", field_selector=selector)) == expected

    run(main)


def test_leases_need_a_version() -> None:
    async def main(harness: CoreHarness) -> None:
        body = {
            "metadata": {"name": "l"},
            "spec": {"holderIdentity": "a", "renewTime": "2024-01-01T00:00:00.5Z"},
        }
        lease = await harness.core.create("leases.coordination.k8s.io", body, namespace="default")
        assert lease["spec"]["renewTime"] == "2024-01-01T00:00:00.500000Z"
        error = await refused(
            harness.core.update("leases.coordination.k8s.io", "l", body, namespace="default"), 422
        )
        assert error.causes[0].field == "metadata.resourceVersion"

    run(main)


def test_scale() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.core.create("deployments.apps", deployment_manifest(), namespace="default")
        scale = await harness.core.get("deployments.apps", "web", namespace="default", subresource="scale")
        assert scale["spec"] == {"replicas": 1}
        assert scale["status"] == {"replicas": 0, "selector": "app=web"}
        scale["spec"]["replicas"] = 5
        answered = await harness.core.update(
            "deployments.apps", "web", scale, namespace="default", subresource="scale"
        )
        assert answered["spec"] == {"replicas": 5}
        patched, _ = await harness.core.patch(
            "deployments.apps",
            "web",
            {"spec": {"replicas": 7}},
            content_type=MERGE,
            namespace="default",
            subresource="scale",
        )
        assert patched["spec"] == {"replicas": 7}
        deployment = await harness.core.get("deployments.apps", "web", namespace="default")
        assert (deployment["spec"]["replicas"], deployment["metadata"]["generation"]) == (7, 3)
        await refused(
            harness.core.update("deployments.apps", "web", scale, namespace="default", subresource="scale"),
            409,
        )
        await refused(harness.core.get("pods", "p", namespace="default", subresource="scale"), 404)

    run(main)


def test_lists_in_chunks_show_one_moment() -> None:
    async def main(harness: CoreHarness) -> None:
        for name in "abcdef":
            await harness.pod(name)
        first = await harness.core.list("pods", namespace="default", limit=2)
        assert names(first) == ["a", "b"]
        assert first["metadata"]["remainingItemCount"] == 4
        await harness.core.delete("pods", "c", namespace="default")
        await harness.pod("d2")
        await harness.core.patch(
            "pods", "e", {"metadata": {"labels": {"x": "y"}}}, content_type=MERGE, namespace="default"
        )
        rest = await harness.core.list("pods", continue_token=first["metadata"]["continue"], limit=10)
        assert names(rest) == ["c", "d", "e", "f"]
        assert all("labels" not in item["metadata"] for item in rest["items"])
        assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        version = first["metadata"]["resourceVersion"]
        exact = await harness.core.list("pods", resource_version=version, resource_version_match="Exact")
        assert names(exact) == list("abcdef")
        newest = await harness.core.list("pods", resource_version=version)
        assert names(newest) == ["a", "b", "d", "d2", "e", "f"]
        harness.store.compact(harness.store.revision)
        expired = await refused(
            harness.core.list("pods", continue_token=first["metadata"]["continue"], limit=10), 410
        )
        assert expired.reason == "Expired"

    run(main)


def test_a_list_of_the_past_has_the_versions_of_the_past() -> None:
    async def main(harness: CoreHarness) -> None:
        core, bodies = harness.core, [{"metadata": {"name": name}} for name in "abc"]
        present = [await core.create("configmaps", body, namespace="default") for body in bodies]
        first = await core.list("configmaps", limit=1)
        await core.delete("configmaps", "b", namespace="default")
        await core.update("configmaps", "c", {**present[2], "data": {"x": "y"}}, namespace="default")
        rest = await core.list("configmaps", continue_token=first["metadata"]["continue"], limit=10)
        assert [*first["items"], *rest["items"]] == present

    run(main)


@pytest.mark.parametrize(
    "options, code",
    (
        ({"resource_version_match": "Exact"}, 422),
        ({"resource_version_match": "Exact", "resource_version": "0"}, 422),
        ({"resource_version_match": "Sometimes", "resource_version": "1"}, 422),
        ({"resource_version": "abc"}, 400),
        ({"resource_version": "-1"}, 400),
        ({"resource_version": "999999"}, 504),
        ({"continue_token": "garbage"}, 400),
        ({"continue_token": "e30"}, 400),
        ({"label_selector": "a in ("}, 400),
        ({"field_selector": "spec.nope=1"}, 400),
        ({"field_selector": "nothing"}, 400),
    ),
)
def test_list_options_that_are_refused(options: dict[str, str], code: int) -> None:
    async def main(harness: CoreHarness) -> None:
        await refused(harness.core.list("pods", **options), code)  # type: ignore[arg-type]  # all are text

    run(main)


def test_selectors() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.pod("a", labels={"app": "x"})
        await harness.pod("b", labels={"app": "y"}, bound="n1")
        list_ = harness.core.list
        assert names(await list_("pods", label_selector="app in (x,z)")) == ["a"]
        assert names(await list_("pods", field_selector="spec.nodeName=n1")) == ["b"]
        assert names(await list_("pods", field_selector="spec.nodeName=")) == ["a"]
        assert names(await list_("pods", field_selector="spec.hostNetwork=false,status.phase=Pending")) == [
            "a",
            "b",
        ]
        assert names(await list_("pods", namespace="default", field_selector="metadata.name=b")) == ["b"]
        assert names(await list_("pods", field_selector="metadata.namespace!=default")) == []
        error = await refused(list_("nodes", field_selector="spec.nodeName=a"), 400)
        assert "field label not supported: spec.nodeName" in str(error)

    run(main)


def test_watch_from_a_version_and_from_now() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.pod("a")
        version = (await harness.core.list("pods"))["metadata"]["resourceVersion"]
        await harness.bind("a", "n1")
        await harness.pod("b")
        await harness.core.delete("pods", "b", namespace="default")
        since = await collect(harness.core.watch("pods", resource_version=version, timeout_seconds=5))
        assert since == [("MODIFIED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]
        now = await collect(harness.core.watch("pods", timeout_seconds=5))
        assert now == [("ADDED", "a")]
        unbound = await collect(
            harness.core.watch(
                "pods", resource_version=version, field_selector="spec.nodeName=", timeout_seconds=5
            )
        )
        assert unbound == [("DELETED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]
        named = await collect(
            harness.core.watch(
                "pods", namespace="default", name="b", resource_version=version, timeout_seconds=5
            )
        )
        assert named == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]

    run(main)


def test_watch_delivers_what_comes_later() -> None:
    async def main(harness: CoreHarness) -> None:
        events = harness.core.watch("pods", timeout_seconds=60)
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(collect(events))
            await asyncio.sleep(1)
            await harness.pod("a")
            await asyncio.sleep(1)
            await harness.core.delete("pods", "a", namespace="default")
        assert reading.result() == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]

    run(main)


def test_bookmarks() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.pod("a")
        events = [
            event
            async for event in harness.core.watch(
                "pods", allow_bookmarks=True, send_initial_events=True, timeout_seconds=90
            )
        ]
        assert [kind for kind, _ in events] == ["ADDED", "BOOKMARK", "BOOKMARK", "BOOKMARK"]
        end = events[1][1]["metadata"]
        assert end["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert {event["metadata"]["resourceVersion"] for _, event in events[1:]} == {
            str(harness.store.revision)
        }
        assert events[2][1]["kind"] == "Pod"

    run(main)


def test_a_watch_from_a_compacted_revision_is_refused_at_once() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.pod("a")
        harness.store.compact(harness.store.revision)
        for version in ("2", "99999"):
            with pytest.raises(StatusError) as caught:
                harness.core.watch("pods", resource_version=version)
            assert (caught.value.code, caught.value.reason) == (410, "Expired")

    run(main)


@pytest.mark.parametrize("subresource", ["", "status"])
def test_a_patch_cannot_change_the_uid(subresource: str) -> None:
    """An update of another UID is a conflict; a patch, to upstream, is an attempt to change it."""

    async def main(harness: CoreHarness) -> None:
        pod = await harness.pod()
        patch = {"metadata": {"uid": "other"}, "status": {"nominatedNodeName": "n1"}}
        wrong = await refused(
            harness.core.patch(
                "pods",
                "p",
                patch,
                content_type="application/strategic-merge-patch+json",
                namespace="default",
                subresource=subresource,
            ),
            422,
        )
        assert 'metadata.uid: Invalid value: "other": field is immutable' in str(wrong)
        await refused(
            harness.core.update(
                "pods",
                "p",
                {**pod, "metadata": {**pod["metadata"], "uid": "other"}},
                namespace="default",
                subresource=subresource,
            ),
            409,
        )

    run(main)


def test_binding() -> None:
    async def main(harness: CoreHarness) -> None:
        pod = await harness.pod()
        uid = pod["metadata"]["uid"]
        wrong = await refused(harness.bind("p", "n1", uid="other"), 409)
        assert "Precondition failed: UID in precondition: other" in str(wrong)
        assert (await harness.bind("p", "n1", uid=uid, annotations={"a": "b"}))["status"] == "Success"
        bound = await harness.core.get("pods", "p", namespace="default")
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["metadata"]["annotations"] == {"a": "b"}
        (condition,) = bound["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
        again = await refused(harness.bind("p", "n2"), 409)
        assert str(again) == (
            'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
        )
        await refused(harness.bind("missing", "n2"), 404)
        await harness.pod("gated", schedulingGates=[{"name": "a"}])
        assert "non-empty .spec.schedulingGates" in str(await refused(harness.bind("gated", "n1"), 409))
        await harness.pod("q")
        await refused(harness.bind("q", ""), 422)

    run(main)


def test_a_bound_pod_dies_slowly() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.pod("waiting")
        await harness.core.delete("pods", "waiting", namespace="default")
        await refused(harness.core.get("pods", "waiting", namespace="default"), 404)
        await harness.pod("p", bound="n1")
        dying = await harness.core.delete("pods", "p", namespace="default")
        assert dying["metadata"]["deletionGracePeriodSeconds"] == 30
        assert dying["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:50Z"
        harness.clock.seconds += 5
        again = await harness.core.delete("pods", "p", namespace="default")
        assert again["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:50Z"
        sooner = await harness.core.delete(
            "pods", "p", namespace="default", options={"gracePeriodSeconds": 5}
        )
        assert sooner["metadata"]["deletionGracePeriodSeconds"] == 5
        await harness.core.delete("pods", "p", namespace="default", options={"gracePeriodSeconds": 0})
        await refused(harness.core.get("pods", "p", namespace="default"), 404)

    run(main)


def test_preconditions_of_a_deletion() -> None:
    async def main(harness: CoreHarness) -> None:
        pod = await harness.pod()
        for wanted in ({"uid": "other"}, {"resourceVersion": "1"}):
            options = {"preconditions": wanted}
            await refused(harness.core.delete("pods", "p", namespace="default", options=options), 409)
        metadata = pod["metadata"]
        both = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        gone = await harness.core.delete("pods", "p", namespace="default", options={"preconditions": both})
        assert gone["metadata"]["name"] == "p"

    run(main)


def test_finalizers_hold_an_object() -> None:
    async def main(harness: CoreHarness) -> None:
        body = {"metadata": {"name": "c", "finalizers": ["example.com/keep"]}}
        await harness.core.create("configmaps", body, namespace="default")
        held = await harness.core.delete("configmaps", "c", namespace="default")
        assert held["metadata"]["deletionTimestamp"]
        more = {"metadata": {"finalizers": ["example.com/keep", "example.com/more"]}}
        await refused(
            harness.core.patch("configmaps", "c", more, content_type=MERGE, namespace="default"), 422
        )
        version = held["metadata"]["resourceVersion"]
        await harness.core.patch(
            "configmaps", "c", {"metadata": {"finalizers": None}}, content_type=MERGE, namespace="default"
        )
        await refused(harness.core.get("configmaps", "c", namespace="default"), 404)
        seen = await collect(harness.core.watch("configmaps", resource_version=version, timeout_seconds=1))
        assert seen == [("DELETED", "c")]

    run(main)


@pytest.mark.parametrize(
    "resource, options, finalizers",
    (
        ("deployments.apps", {}, None),
        ("deployments.apps", {"propagationPolicy": "Background"}, None),
        ("deployments.apps", {"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ("deployments.apps", {"propagationPolicy": "Orphan"}, ["orphan"]),
        ("deployments.apps", {"orphanDependents": True}, ["orphan"]),
        ("jobs.batch", {}, ["orphan"]),
        ("jobs.batch", {"propagationPolicy": "Background"}, None),
    ),
)
def test_propagation_is_left_to_the_garbage_collector(
    resource: str, options: Obj, finalizers: list[str] | None
) -> None:
    async def main(harness: CoreHarness) -> None:
        body = deployment_manifest()
        if resource == "jobs.batch":
            body = {
                "metadata": {"name": "web"},
                "spec": {"template": {"spec": pod_manifest(restartPolicy="Never")["spec"]}},
            }
        await harness.core.create(resource, body, namespace="default")
        answer = await harness.core.delete(resource, "web", namespace="default", options=options)
        if finalizers is None:
            assert (answer["kind"], answer["status"]) == ("Status", "Success")
            await refused(harness.core.get(resource, "web", namespace="default"), 404)
        else:
            assert answer["metadata"]["finalizers"] == finalizers
            assert answer["metadata"]["deletionTimestamp"]

    run(main)


def test_a_namespace_ends_by_its_finalizer() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.core.create("namespaces", {"metadata": {"name": "n"}})
        ended = await harness.core.delete("namespaces", "n")
        assert ended["status"]["phase"] == "Terminating"
        error = await refused(harness.core.create("pods", pod_manifest(), namespace="n"), 403)
        assert "because it is being terminated" in str(error)
        assert error.causes[0].reason == "NamespaceTerminating"
        await harness.core.update("namespaces", "n", {**ended, "spec": {}}, subresource="finalize")
        await refused(harness.core.get("namespaces", "n"), 404)
        await refused(harness.core.delete("namespaces", "default"), 403)

    run(main)


def test_delete_collection() -> None:
    async def main(harness: CoreHarness) -> None:
        for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
            await harness.pod(name, labels={"app": app})
        gone = await harness.core.delete_collection("pods", namespace="default", label_selector="app=x")
        assert names(gone) == ["a", "b"]
        assert names(await harness.core.list("pods")) == ["c"]

    run(main)


def test_events_are_the_same_objects_in_both_groups() -> None:
    async def main(harness: CoreHarness) -> None:
        core_event = {
            "metadata": {"name": "one"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
            "message": "hello",
            "reason": "Why",
            "type": "Normal",
            "count": 2,
        }
        await harness.core.create("events", core_event, namespace="default")
        new = await harness.core.get("events.events.k8s.io", "one", namespace="default")
        assert (new["apiVersion"], new["note"], new["deprecatedCount"]) == ("events.k8s.io/v1", "hello", 2)
        assert new["regarding"]["name"] == "p"
        body = {
            "metadata": {"name": "two"},
            "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
            "eventTime": "2024-01-01T00:00:00.000001Z",
            "note": "new",
            "reportingController": "sched",
        }
        await harness.core.create("events.events.k8s.io", body, namespace="default")
        old = await harness.core.list(
            "events", field_selector="involvedObject.name=p,reportingComponent=sched"
        )
        assert names(old) == ["two"]
        assert old["items"][0]["message"] == "new"
        both = await harness.core.list("events.events.k8s.io", field_selector="regarding.name=p")
        assert [item["note"] for item in both["items"]] == ["hello", "new"]
        patched, _ = await harness.core.patch(
            "events.events.k8s.io",
            "two",
            {"series": {"count": 3, "lastObservedTime": "2024-01-01T00:00:01Z"}},
            content_type=STRATEGIC,
            namespace="default",
        )
        assert patched["series"]["count"] == 3
        assert patched["note"] == "new"

    run(main)


OPEN_SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CRD = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wg"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": OPEN_SCHEMA},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
            },
            {
                "name": "v1beta1",
                "served": True,
                "storage": False,
                "schema": {"openAPIV3Schema": OPEN_SCHEMA},
            },
        ],
    },
}


def test_custom_kinds_are_served() -> None:
    async def main(harness: CoreHarness) -> None:
        core = harness.core
        changed = core.resources.changed
        crd = await core.create("customresourcedefinitions.apiextensions.k8s.io", CRD)
        assert {each["type"]: each["status"] for each in crd["status"]["conditions"]} == {
            "NamesAccepted": "True",
            "Established": "True",
        }
        assert core.resources.changed > changed
        body = {"metadata": {"name": "w"}, "spec": {"size": 3, "free": [1, {"form": None}]}}
        widget = await core.create("widgets.example.com", body, namespace="default")
        assert widget["spec"] == body["spec"]
        beta = core.resources.find("example.com", "v1beta1", "widgets")
        assert beta is not None
        assert (await core.get(beta, "w", namespace="default"))["apiVersion"] == "example.com/v1beta1"
        scaled, _ = await core.patch(
            "widgets.example.com",
            "w",
            {"spec": {"replicas": 4}},
            content_type=MERGE,
            namespace="default",
            subresource="scale",
        )
        assert scaled["spec"] == {"replicas": 4}
        refusal = await refused(
            core.patch("widgets.example.com", "w", {}, content_type=STRATEGIC, namespace="default"), 415
        )
        assert refusal.reason == "UnsupportedMediaType"
        await core.delete("customresourcedefinitions.apiextensions.k8s.io", "widgets.example.com")
        await refused(core.list("widgets.example.com"), 404)
        assert harness.store.list("widgets.example.com") == []

    run(main)


def test_custom_kinds_survive_a_restart() -> None:
    async def main(harness: CoreHarness) -> None:
        from kuberth.local.apiserver.verbs.core import Core

        await harness.core.create("customresourcedefinitions.apiextensions.k8s.io", CRD)
        again = Core(harness.store, clock=harness.clock)
        assert (await again.list("widgets.example.com"))["kind"] == "WidgetList"

    run(main)


PDB = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}


def test_evictions_honour_budgets() -> None:
    async def main(harness: CoreHarness) -> None:
        core = harness.core

        async def report(resource: str, name: str, status: Obj) -> None:
            await core.patch(
                resource,
                name,
                {"status": status},
                content_type=MERGE,
                namespace="default",
                subresource="status",
            )

        async def evict(name: str) -> Obj:
            body = {"metadata": {"name": name}}
            return await core.create("pods", body, namespace="default", name=name, subresource="eviction")

        await core.create("poddisruptionbudgets.policy", PDB, namespace="default")
        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        for name in ("a", "b"):
            await harness.pod(name, labels={"app": "x"}, bound="n1")
            await report("pods", name, running)
        early = await refused(evict("a"), 429)
        assert str(early) == "Cannot evict pod as it would violate the pod's disruption budget."
        assert early.causes[0].message == "The disruption budget b is still being processed by the server."
        healthy = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}
        await report("poddisruptionbudgets.policy", "b", healthy)
        assert (await evict("a"))["status"] == "Success"
        evicted = await core.get("pods", "a", namespace="default")
        assert evicted["metadata"]["deletionTimestamp"]
        assert evicted["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
        budget = await core.get("poddisruptionbudgets.policy", "b", namespace="default")
        assert budget["status"]["disruptionsAllowed"] == 0
        assert list(budget["status"]["disruptedPods"]) == ["a"]
        await report("poddisruptionbudgets.policy", "b", {"currentHealthy": 1})
        late = await refused(evict("b"), 429)
        assert late.causes[0].message == "The disruption budget b needs 1 healthy pods and has 1 currently"
        await harness.pod("pending", labels={"app": "x"})
        await evict("pending")
        await refused(core.get("pods", "pending", namespace="default"), 404)
        await refused(evict("missing"), 404)

    run(main)


def test_an_answer_comes_only_after_the_commit() -> None:
    async def main(harness: CoreHarness) -> None:
        pod = await harness.pod()
        assert harness.store.revision >= int(pod["metadata"]["resourceVersion"])
        assert harness.store.get("pods", "default/p") == pod

    run(main)


REFUSALS: dict[str, Callable[[CoreHarness], Awaitable[Any]]] = {
    "create": lambda harness: harness.pod(),
    "delete": lambda harness: harness.core.delete(
        "pods", "p", namespace="default", options={"preconditions": {"uid": "other"}}
    ),
    "update": lambda harness: harness.core.update(
        "pods", "p", {"metadata": {"name": "p", "resourceVersion": "1"}}, namespace="default"
    ),
    "dry run": lambda harness: harness.core.patch(
        "pods",
        "p",
        {"metadata": {"labels": {"a": "b"}}},
        content_type=MERGE,
        namespace="default",
        dry_run=True,
    ),
}


@pytest.mark.parametrize("attempt", REFUSALS.values(), ids=REFUSALS)
def test_an_answer_that_rests_on_another_write_waits_for_its_commit(
    attempt: Callable[[CoreHarness], Awaitable[Any]],
) -> None:
    async def main(harness: CoreHarness) -> None:
        first = asyncio.ensure_future(harness.pod())
        await asyncio.sleep(0)
        assert harness.store.get("pods", "default/p") is None
        with suppress(StatusError):
            await attempt(harness)
        assert harness.store.get("pods", "default/p") is not None
        await first

    run(main)
