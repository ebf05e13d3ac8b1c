"""Prepared specs: a pod made from the cache equals the pod that would have been made without it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules.prepared_specs import PreparedSpecs
from kuberth.local.apiserver.status_errors import StatusError
from tests.manifests import pod_manifest
from tests.unit.local.apiserver.harness import CoreHarness, run

CLASSES = "priorityclasses.scheduling.k8s.io"


def pod(name: str, *, metadata: Obj | None = None, **spec: Any) -> Obj:
    return pod_manifest(name, limits={"cpu": "1000m"}, labels={"app": "web"}, metadata=metadata, **spec)


async def create(harness: CoreHarness, body: Obj, *, manager: str = "", namespace: str = "default") -> Obj:
    return await harness.core.create("pods", body, namespace=namespace, field_manager=manager)


def without_identity(stored: Obj) -> Obj:
    metadata = {name: value for name, value in stored["metadata"].items() if name != "uid"}
    return {**stored, "metadata": {**metadata, "resourceVersion": ""}}


async def outcome(harness: CoreHarness, body: Obj, manager: str) -> Obj:
    """What is stored, or why nothing is."""
    try:
        return without_identity(await create(harness, copy.deepcopy(body), manager=manager))
    except StatusError as error:
        return error.to_object()


def test_pods_that_are_alike_share_their_spec() -> None:
    async def test(harness: CoreHarness) -> None:
        first, second = [await create(harness, pod(name)) for name in ("a", "b")]
        assert second["spec"] is first["spec"]
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        other = await create(harness, pod("c", hostname="c"))
        assert other["spec"] is not first["spec"]
        # What one of them becomes, the others do not.
        await harness.bind("a", "n1")
        assert "nodeName" not in second["spec"]
        third = await create(harness, pod("d"))
        assert third["spec"] == second["spec"]

    run(test)


_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "priorityClassName": st.just("system-node-critical"),
        "tolerations": st.just([{"key": "a", "operator": "Exists"}]),
        "nodeSelector": st.dictionaries(st.sampled_from(("a", "b")), st.sampled_from(("1", "2"))),
        "serviceAccountName": st.just("default"),
        "schedulingGates": st.just([{"name": "example.com/gate"}]),
        "hostNetwork": st.booleans(),
        "nodeName": st.just("n1"),
        "volumes": st.just([{"name": "data"}]),
        "unknown": st.just({"deep": 1}),
    },
)
_LABELS: st.SearchStrategy[Obj] = st.sampled_from(({}, {"labels": {}}))
_BODIES = st.tuples(_SPECS, st.sampled_from(("", "kubectl", "other")), _LABELS)


@given(st.lists(_BODIES, min_size=1, max_size=6))
def test_whatever_was_made_before(bodies: list[tuple[Obj, str, Obj]]) -> None:
    """Twice over in one server, and each alone in a server of its own: the same objects."""

    async def test(harness: CoreHarness) -> list[Obj]:
        made = []
        for turn in "ab":
            for index, (spec, manager, metadata) in enumerate(bodies):
                body = pod(f"{turn}{index}", metadata=metadata, **spec)
                made.append(await outcome(harness, body, manager))
        return made

    def alone(turn: str, number: int) -> Obj:
        spec, manager, metadata = bodies[number]
        return run(
            lambda harness: outcome(harness, pod(f"{turn}{number}", metadata=metadata, **spec), manager)
        )

    expected = [alone(turn, number) for turn in "ab" for number in range(len(bodies))]
    assert run(test) == expected


def test_what_admission_looks_at_counts() -> None:
    async def test(harness: CoreHarness) -> None:
        core = harness.core
        assert (await create(harness, pod("a")))["spec"]["priority"] == 0
        await core.create(CLASSES, {"metadata": {"name": "gold"}, "value": 7, "globalDefault": True})
        assert (await create(harness, pod("b")))["spec"]["priority"] == 7
        account = await core.get("serviceaccounts", "default", namespace="default")
        secrets = [{"name": "pull"}]
        await core.update(
            "serviceaccounts", "default", {**account, "imagePullSecrets": secrets}, namespace="default"
        )
        assert (await create(harness, pod("c")))["spec"]["imagePullSecrets"] == secrets
        limits = [{"type": "Container", "defaultRequest": {"memory": "1Gi"}}]
        body = {"metadata": {"name": "small"}, "spec": {"limits": limits}}
        await core.create("limitranges", body, namespace="default")
        limited = await create(harness, pod("d"))
        assert limited["spec"]["containers"][0]["resources"]["requests"]["memory"] == "1Gi"
        assert "kubernetes.io/limit-ranger" in limited["metadata"]["annotations"]
        await core.create("namespaces", {"metadata": {"name": "other"}})
        elsewhere = await create(harness, pod("a"), namespace="other")
        assert "imagePullSecrets" not in elsewhere["spec"]

    run(test)


def test_a_quota_counts_each_of_them() -> None:
    async def test(harness: CoreHarness) -> None:
        body = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
        await harness.core.create("resourcequotas", body, namespace="default")
        for name in "ab":
            await create(harness, pod(name))
        with pytest.raises(StatusError, match="exceeded quota"):
            await create(harness, pod("c"))

    run(test)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        pytest.param({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"a": 1}}, id="a number for text"),
        pytest.param({"nodeSelector": {"1": "a"}}, {"nodeSelector": {1: "a"}}, id="a number for a key"),
        pytest.param({"hostNetwork": True}, {"hostNetwork": 1}, id="a number for a truth"),
        pytest.param({"hostname": "a"}, {"hostname": "A_"}, id="no host name"),
    ],
)
def test_what_is_refused_is_refused_after_its_like_was_not(good: Obj, bad: Obj) -> None:
    async def test(harness: CoreHarness) -> None:
        await create(harness, pod("a", **good))
        for _ in range(2):
            with pytest.raises(StatusError):
                await create(harness, pod("b", **bad))
        await create(harness, pod("c", **good))

    run(test)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({**pod("a"), "status": {"phase": "Running"}}, id="a status"),
        pytest.param(pod("a", schedulingGates=[{"name": "g"}]), id="gates: the condition has the time"),
        pytest.param(pod("a", metadata={"managedFields": []}), id="managers of its own"),
        pytest.param(
            pod("a", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}), id="a mirror pod"
        ),
        pytest.param(pod("a", hostname="x" * 40_000), id="too large to keep"),
        pytest.param({"metadata": {"name": "a"}}, id="no spec"),
        pytest.param([], id="no object"),
    ],
)
def test_pods_that_are_not_cached(body: Any) -> None:
    async def test(harness: CoreHarness) -> None:
        row = harness.core.resources.by_id("pods")
        assert row is not None
        assert PreparedSpecs(harness.store).key(row, body, namespace="default", tracked=False) is None

    run(test)


def test_few_specs_are_cached() -> None:
    async def test(harness: CoreHarness) -> None:
        row, prepared = harness.core.resources.by_id("pods"), PreparedSpecs(harness.store)
        assert row is not None
        keys = []
        for number in range(300):
            body = pod("a", hostname=f"h{number}")
            key = prepared.key(row, body, namespace="default", tracked=False)
            assert key is not None
            prepared.add(key, {"metadata": {}, "spec": body["spec"], "status": {}})
            keys.append(key)
        kept = [key for key in keys if prepared.get(key) is not None]
        assert kept == keys[-256:]

    run(test)


def test_a_status_written_in_process_leaves_the_version_before_it_alone() -> None:
    async def test(harness: CoreHarness) -> None:
        first = await create(harness, pod("a"), manager="kubectl")
        before = copy.deepcopy(first)
        body = {**first, "status": {**first["status"], "phase": "Running"}}
        second = await harness.core.update("pods", "a", body, namespace="default", subresource="status")
        assert second["status"]["phase"] == "Running"
        assert second["spec"] is first["spec"]
        assert second["metadata"] is not first["metadata"]
        assert first == before
        # The first version is the past now.
        with pytest.raises(StatusError) as refused:
            await harness.core.update("pods", "a", body, namespace="default", subresource="status")
        assert refused.value.code == 409

    run(test)
