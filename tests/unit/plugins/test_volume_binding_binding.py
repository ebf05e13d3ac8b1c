from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from kuberth.api.core import Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod
from kuberth.api.storage import StorageClass
from kuberth.clock import LoopClock, run_in_virtual_time
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.config import FeatureGates
from kuberth.config.plugin_args import VolumeBindingArgs
from kuberth.errors import ConflictError
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.handle import Handle
from kuberth.framework.nominator import Nominator
from kuberth.framework.status import SKIP, Code, Status
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.informers.reflector import Reflector
from kuberth.informers.store import Stores
from kuberth.local.memory_api import MemoryApi
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.plugins.volume_binding.plugin import VolumeBinding
from kuberth.plugins.volumes.claims import claims_of
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.volume_objects import (
    HOST,
    claim_volume,
    in_zone,
    make_claim,
    make_class,
    make_volume,
)

SELECTED = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
LOCAL = make_class("local", provisioner="kubernetes.io/no-provisioner")
KINDS = (Pod, Node, PersistentVolume, PersistentVolumeClaim, StorageClass)


class _Nothing:
    def activate(self, pods: Any) -> None:
        raise AssertionError("not for this plugin")

    def record(self, event: Any) -> None:
        raise AssertionError("not for this plugin")


class Cluster:
    """A cluster in this process, with informers that follow it and the plugin over them."""

    def __init__(self, *objects: Any, api: MemoryApi | None = None, timeout: int = 600) -> None:
        self.api = MemoryApi() if api is None else api
        self.stores = Stores()
        self.table = ClusterTable()
        self.metrics = SchedulerMetrics()
        handle = Handle(
            api=self.api,
            stores=self.stores,
            cluster=self.table,
            clock=LoopClock(asyncio.get_running_loop()),
            feature_gates=FeatureGates(),
            waiting_pods=WaitingPods(),
            nominator=Nominator(),
            activator=_Nothing(),
            recorder=_Nothing(),
            spawn=lambda work, *, name: work.close(),
            metrics=self.metrics,
        )
        self.plugin = VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=timeout), handle)
        for obj in objects:
            self.api.put(obj)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> Cluster:
        for kind in KINDS:
            reflector = Reflector(self.api, kind, self.stores.of(kind), self._changed)
            await reflector.sync()
            self._tasks.append(asyncio.create_task(reflector.run(), name=kind.__name__))
        return self

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _changed(self, old: Any, new: Any) -> None:
        if isinstance(new, Node):
            self.table.set_node(new)
        elif isinstance(old, Node):
            self.table.remove_node(old.metadata.name)

    def pod(self, name: str = "p") -> Pod:
        return self.api.read(Pod, f"default/{name}")

    def place(self, pod: Pod, node: str) -> CycleState:
        """Filter, then Reserve on the node; both have to succeed."""
        state = CycleState(PodInfo(pod))
        nodes = self.table.all_nodes()
        assert self.plugin.pre_filter(state, pod, nodes) in (None, SKIP)
        if any(claims_of(pod, pod.spec.volumes)):
            self.plugin.filter_nodes(state, pod, nodes)
        assert self.plugin.reserve(state, pod, node) is None
        return state

    def feasible(self, pod: Pod) -> list[str]:
        state = CycleState(PodInfo(pod))
        nodes = self.table.all_nodes()
        assert self.plugin.pre_filter(state, pod, nodes) is None
        verdict = self.plugin.filter_nodes(state, pod, nodes)
        rejected = [False] * len(nodes) if verdict is None else (verdict.codes != 0).tolist()
        return [nodes.name(i) for i, out in enumerate(rejected) if not out]

    def complete(self, claim: str, volume: str) -> None:
        """What the volume controller does when a claim and a volume belong together."""

        def completed(old: PersistentVolumeClaim) -> PersistentVolumeClaim:
            replace = msgspec.structs.replace
            annotations = {**old.metadata.annotations, BIND_COMPLETED: "yes"}
            return replace(
                old,
                metadata=replace(old.metadata, annotations=annotations),
                spec=replace(old.spec, volume_name=volume),
            )

        self.api.change(PersistentVolumeClaim, f"default/{claim}", completed)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_in_virtual_time(scenario)


def pod_using(*claims: str, name: str = "p") -> Pod:
    return make_pod(name, volumes=[claim_volume(claim) for claim in claims])


async def cluster_of(*objects: Any, **options: Any) -> Cluster:
    return await Cluster(make_node("a"), make_node("b"), LOCAL, make_class(), *objects, **options).start()


def test_a_volume_that_is_there_is_bound_to_its_claim() -> None:
    async def scenario() -> None:
        cluster = await cluster_of(
            pod_using("c"), make_claim("c", storage_class="local"), make_volume("v", storage_class="local")
        )
        pod = cluster.pod()
        state = cluster.place(pod, "a")
        assert cluster.plugin.pre_bind_pre_flight(state, pod, "a") is None
        binding = asyncio.create_task(_pre_bind(cluster, state, pod, "a"), name="pre_bind")
        await asyncio.sleep(30)
        assert not binding.done()
        volume = cluster.api.read(PersistentVolume, "v")
        claim = cluster.api.read(PersistentVolumeClaim, "default/c")
        assert volume.metadata.annotations == {BOUND_BY_CONTROLLER: "yes"}
        assert volume.spec.claim_ref == ObjectReference(
            api_version="v1",
            kind="PersistentVolumeClaim",
            namespace="default",
            name="c",
            uid="claim-c",
            resource_version=claim.metadata.resource_version,
        )
        cluster.complete("c", "v")
        started = asyncio.get_running_loop().time()
        assert await binding is None
        assert asyncio.get_running_loop().time() - started <= 1
        await cluster.stop()

    run(scenario)


async def _pre_bind(cluster: Cluster, state: CycleState, pod: Pod, node: str) -> Status | None:
    return await cluster.plugin.pre_bind(state, pod, node)


def test_a_volume_is_made_where_the_pod_goes() -> None:
    async def scenario() -> None:
        cluster = await cluster_of(pod_using("c"), make_claim("c"))
        pod = cluster.pod()
        state = cluster.place(pod, "b")
        binding = asyncio.create_task(_pre_bind(cluster, state, pod, "b"), name="pre_bind")
        await asyncio.sleep(5)
        claim = cluster.api.read(PersistentVolumeClaim, "default/c")
        assert claim.metadata.annotations == {SELECTED: "b"}
        cluster.complete("c", "made")
        await asyncio.sleep(5)
        assert not binding.done(), "the volume itself is not there yet"
        cluster.api.put(make_volume("made", claim=claim, nodeAffinity=in_zone("b", key=HOST)))
        assert await binding is None
        await cluster.stop()

    run(scenario)


@pytest.mark.parametrize(
    ("reference", "annotations"),
    [
        pytest.param({"namespace": "default", "name": "c"}, {}, id="without a UID: completed, not marked"),
        pytest.param({"namespace": "default", "name": "c", "uid": "claim-c"}, {}, id="complete: left alone"),
    ],
)
def test_a_volume_its_owner_reserved_is_not_marked_as_the_controllers(
    reference: dict[str, str], annotations: dict[str, str]
) -> None:
    async def scenario() -> None:
        cluster = await cluster_of(
            pod_using("c"),
            make_claim("c", storage_class="local"),
            make_volume("v", storage_class="local", claimRef=reference),
        )
        pod = cluster.pod()
        state = cluster.place(pod, "a")
        binding = asyncio.create_task(_pre_bind(cluster, state, pod, "a"), name="pre_bind")
        await asyncio.sleep(1)
        volume = cluster.api.read(PersistentVolume, "v")
        assert volume.metadata.annotations == annotations
        assert volume.spec.claim_ref is not None
        assert volume.spec.claim_ref.uid == "claim-c"
        cluster.complete("c", "v")
        assert await binding is None
        await cluster.stop()

    run(scenario)


def test_what_is_reserved_is_not_given_to_another_pod_until_it_is_given_back() -> None:
    async def scenario() -> None:
        cluster = await cluster_of(
            pod_using("c"),
            pod_using("d", name="q"),
            make_claim("c", storage_class="local"),
            make_claim("d", storage_class="local"),
            make_volume("v", storage_class="local"),
        )
        assert cluster.feasible(cluster.pod("q")) == ["a", "b"]
        state = cluster.place(cluster.pod(), "a")
        assert cluster.feasible(cluster.pod("q")) == []
        cluster.plugin.unreserve(state, cluster.pod(), "a")
        cluster.plugin.unreserve(state, cluster.pod(), "a")
        assert cluster.feasible(cluster.pod("q")) == ["a", "b"]
        await cluster.stop()

    run(scenario)


def test_a_claim_whose_volume_is_being_made_draws_other_pods_to_the_same_node() -> None:
    async def scenario() -> None:
        cluster = await cluster_of(pod_using("c"), pod_using("c", name="q"), make_claim("c"))
        state = cluster.place(cluster.pod(), "b")
        assert cluster.feasible(cluster.pod("q")) == ["b"]
        cluster.plugin.unreserve(state, cluster.pod(), "b")
        assert cluster.feasible(cluster.pod("q")) == ["a", "b"]
        await cluster.stop()

    run(scenario)


def test_nothing_to_do_for_bound_claims_and_for_pods_without_any() -> None:
    async def scenario() -> None:
        cluster = await cluster_of(
            pod_using("c"), pod_using(name="q"), make_claim("c", volume="v"), make_volume("v")
        )
        for name in ("p", "q"):
            pod = cluster.pod(name)
            state = cluster.place(pod, "a")
            assert cluster.plugin.pre_bind_pre_flight(state, pod, "a") is SKIP
            assert await cluster.plugin.pre_bind(state, pod, "a") is None
            cluster.plugin.unreserve(state, pod, "a")
        await cluster.stop()

    run(scenario)


def test_a_decision_for_another_node_is_an_error() -> None:
    async def scenario() -> None:
        cluster = await cluster_of(pod_using("c"), make_claim("c"))
        pod = cluster.pod()
        state = cluster.place(pod, "b")
        status = cluster.plugin.pre_bind_pre_flight(state, pod, "a")
        assert status is not None
        assert (status.code, status.message) == (Code.ERROR, 'no pod volume found for node "a"')
        untold = cluster.plugin.pre_bind_pre_flight(CycleState(PodInfo(pod)), pod, "a")
        assert untold is not None
        assert untold.code == Code.ERROR
        await cluster.stop()

    run(scenario)


def _remove(kind: type[Any], key: str) -> Callable[[Cluster], None]:
    return lambda cluster: cluster.api.remove(kind, key)


def _reset_reference(cluster: Cluster) -> None:
    replace = msgspec.structs.replace
    cluster.api.change(
        PersistentVolume, "v", lambda old: replace(old, spec=replace(old.spec, claim_ref=None))
    )


def _remove_other_claim(cluster: Cluster) -> None:
    cluster.complete("c", "v")
    cluster.api.remove(PersistentVolumeClaim, "default/d")


def _take_node_back(cluster: Cluster) -> None:
    cluster.complete("c", "v")
    replace = msgspec.structs.replace
    cluster.api.change(
        PersistentVolumeClaim,
        "default/d",
        lambda old: replace(old, metadata=replace(old.metadata, annotations={})),
    )


def _make_unreachable(cluster: Cluster) -> None:
    cluster.complete("c", "v")
    claim = cluster.api.read(PersistentVolumeClaim, "default/d")
    cluster.api.put(make_volume("far", claim=claim, nodeAffinity=in_zone("b", key=HOST)))
    cluster.complete("d", "far")


def _make_again(cluster: Cluster) -> None:
    cluster.api.remove(Pod, "default/p")
    cluster.api.put(make_pod("p", uid="another"))


@pytest.mark.parametrize(
    ("what_happens", "problem"),
    [
        pytest.param(_remove(Node, "a"), 'node "a" does not exist any more', id="the node is gone"),
        pytest.param(_remove(Pod, "default/p"), "pod does not exist any more", id="the pod is gone"),
        pytest.param(_make_again, "pod does not exist any more", id="another pod of that name"),
        pytest.param(
            _remove(PersistentVolume, "v"),
            'PersistentVolume "v" does not exist any more',
            id="the volume is gone",
        ),
        pytest.param(
            _remove(PersistentVolumeClaim, "default/c"),
            'PersistentVolumeClaim "default/c" does not exist any more',
            id="the claim is gone",
        ),
        pytest.param(
            _remove_other_claim,
            'PersistentVolumeClaim "default/d" does not exist any more',
            id="the other claim is gone",
        ),
        pytest.param(_reset_reference, 'ClaimRef got reset for pv "v"', id="the reference was reset"),
        pytest.param(
            _take_node_back, 'provisioning failed for PVC "d"', id="the provisioner took the node back"
        ),
        pytest.param(
            _make_unreachable,
            'pv "far" node affinity doesn\'t match node "a"',
            id="the volume was made elsewhere",
        ),
    ],
)
def test_binding_fails_clearly(what_happens: Callable[[Cluster], None], problem: str) -> None:
    async def scenario() -> None:
        cluster = await cluster_of(
            pod_using("c", "d"),
            make_claim("c", storage_class="local"),
            make_claim("d"),
            make_volume("v", storage_class="local"),
        )
        pod = cluster.pod()
        state = cluster.place(pod, "a")
        binding = asyncio.create_task(_pre_bind(cluster, state, pod, "a"), name="pre_bind")
        await asyncio.sleep(10)
        what_happens(cluster)
        status = await asyncio.wait_for(binding, 5)
        assert status is not None
        assert status.code == Code.ERROR
        assert problem in status.message
        assert cluster.metrics.volume_stage_errors.values == {("bind",): 1}
        await cluster.stop()

    run(scenario)


def test_binding_does_not_wait_for_ever() -> None:
    async def scenario() -> None:
        cluster = await cluster_of(pod_using("c"), make_claim("c"), timeout=90)
        pod = cluster.pod()
        state = cluster.place(pod, "a")
        loop = asyncio.get_running_loop()
        started = loop.time()
        status = await cluster.plugin.pre_bind(state, pod, "a")
        assert loop.time() - started == pytest.approx(90)
        assert status is not None
        assert status.code == Code.ERROR
        assert status.message == ("binding volumes: the claims were not bound within 90 seconds: default/c")
        await cluster.stop()

    run(scenario)


def test_a_volume_changed_by_someone_else_is_a_conflict_and_what_was_not_written_is_given_back() -> None:
    class LateApi(MemoryApi):
        """The informers hear of nothing: what others write shows only in the conflict."""

        async def watch(self, kind: type[Any], **_how: Any) -> Any:
            await asyncio.Event().wait()
            yield

    async def scenario() -> None:
        cluster = await cluster_of(
            pod_using("c", "d"),
            pod_using("d", name="q"),
            make_claim("c", storage_class="local", size="1Gi"),
            make_claim("d", storage_class="local", size="5Gi"),
            make_volume("v", storage_class="local", size="1Gi"),
            make_volume("w", storage_class="local", size="9Gi"),
            api=LateApi(),
        )
        pod = cluster.pod()
        state = cluster.place(pod, "a")
        assert cluster.feasible(cluster.pod("q")) == ["a", "b"], "w is reserved for just this claim"
        cluster.api.change(PersistentVolume, "w", lambda old: msgspec.structs.replace(old, status=old.status))
        status = await cluster.plugin.pre_bind(state, pod, "a")
        assert status is not None
        assert isinstance(status.cause, ConflictError)
        written = cluster.api.read(PersistentVolume, "v")
        assert written.spec.claim_ref is not None
        cluster.plugin.unreserve(state, pod, "a")
        volumes = cluster.plugin._finder.volumes
        assert volumes.get("w") is cluster.stores.of(PersistentVolume).get("w")
        assumed = volumes.get("v")
        assert assumed is not None
        assert assumed.spec.claim_ref is not None, "what was written stays assumed until it comes back"
        await cluster.stop()

    run(scenario)


def test_reserve_notices_that_a_volume_was_taken_meanwhile() -> None:
    async def scenario() -> None:
        cluster = await cluster_of(
            pod_using("c"), make_claim("c", storage_class="local"), make_volume("v", storage_class="local")
        )
        pod = cluster.pod()
        state = CycleState(PodInfo(pod))
        nodes = cluster.table.all_nodes()
        cluster.plugin.pre_filter(state, pod, nodes)
        cluster.plugin.filter_nodes(state, pod, nodes)
        volume = cluster.api.read(PersistentVolume, "v")
        metadata = msgspec.structs.replace(volume.metadata, resource_version="999")
        cluster.stores.of(PersistentVolume).set(msgspec.structs.replace(volume, metadata=metadata))
        status = cluster.plugin.reserve(state, pod, "a")
        assert status is not None
        assert status.code == Code.ERROR
        assert '"v" is out of sync' in status.message
        assert cluster.metrics.volume_stage_errors.values == {("assume",): 1}
        await cluster.stop()

    run(scenario)
