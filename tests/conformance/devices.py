"""Replays cases about device claims: what nodes could give, what is written before a pod is bound and taken
back after, and what is released for a pod that fits nowhere.

In: a case of kind `dra`. Out: what kube-scheduler would have answered, in the form of the corpus.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Coroutine
from typing import Any

from kuberth.api.core import Namespace, Node, Pod
from kuberth.api.resource import AllocationResult, ResourceClaim
from kuberth.api.wire import convert, to_builtins
from kuberth.assembly.profiles import assemble, derive_with, effective_gates, full_registry
from kuberth.clock import SystemClock, run_in_virtual_time
from kuberth.cluster.nodes import NodeRow
from kuberth.cluster.table import ClusterTable
from kuberth.config import default_configuration, load
from kuberth.config.feature_gates import FeatureGates
from kuberth.errors import PluginError
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.handle import Handle
from kuberth.framework.nominator import Nominator
from kuberth.framework.status import SKIP, Code, Status
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.informers.store import Stores
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.plugins.devices.inventory import Inventory
from kuberth.plugins.dynamic_resources.plugin import DynamicResources
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.scheduling.sampling import EveryNode
from kuberth.testing import MemoryApi
from tests.conformance.cases import Case
from tests.unit.framework.harness import Outside

_CEL_ERROR = re.compile(r"(CEL (?:compile|runtime) error:).*", re.DOTALL)
"""What cel-go itself says behind it is not compared."""
_GENERATED = re.compile(r"(-extended-resources-)\d{5}$")
_ASKED_TIMES = 60
_CLAIM_WORK = ("deallocate", "delete", "release")


def devices_answer(case: Case, objects: list[Any]) -> dict[str, Any]:
    return _Rig(case, objects).answer()


def without_cel_texts(tree: Any) -> Any:
    """The same with what stands behind `CEL compile error:` left out."""
    if isinstance(tree, dict):
        return {key: without_cel_texts(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [without_cel_texts(value) for value in tree]
    return _CEL_ERROR.sub(r"\1", tree) if isinstance(tree, str) else tree


def without_empty_conditions(tree: Any) -> Any:
    """The same without empty fields of device statuses, which only Go writes."""
    if isinstance(tree, dict):
        tree = {key: without_empty_conditions(value) for key, value in tree.items()}
        return {
            key: [_without_empty(each) for each in value] if key == "devices" and _is_list(value) else value
            for key, value in tree.items()
        }
    return [without_empty_conditions(value) for value in tree] if _is_list(tree) else tree


def _is_list(tree: Any) -> bool:
    return isinstance(tree, list)


def _without_empty(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_empty(value) for key, value in tree.items() if value not in ("", [])}
    return [_without_empty(value) for value in tree] if _is_list(tree) else tree


class _Rig:
    """A profile over a case's objects, and an API that takes writes."""

    def __init__(self, case: Case, objects: list[Any]) -> None:
        gates_of_case = case.get("featureGates")
        if case.get("config"):
            config = load(case["config"], feature_gates=gates_of_case)
        else:
            config = default_configuration(FeatureGates(gates_of_case))
        gates = effective_gates(config, None)
        self.pod: Pod = convert(Pod, case["pod"])
        self.api = MemoryApi()
        self.stores = Stores()
        self.cluster = ClusterTable()
        self.background: list[tuple[str, Coroutine[Any, Any, None]]] = []
        outside = Outside()
        metrics, nominator = SchedulerMetrics(), Nominator()
        handle = Handle(
            api=self.api,
            stores=self.stores,
            cluster=self.cluster,
            clock=SystemClock(),
            feature_gates=gates,
            waiting_pods=WaitingPods(),
            nominator=nominator,
            activator=outside,
            recorder=outside,
            spawn=lambda work, *, name: self.background.append((name, work)),
            metrics=metrics,
        )
        runners = assemble(config, registry=full_registry(), handle=handle, metrics=metrics)
        self.runner = next(iter(runners.values()))
        self.cycle = SchedulingCycle(self.cluster, nominator=nominator, metrics=metrics, sampling=EveryNode())
        plugin = self.runner.profile.plugins["DynamicResources"]
        assert isinstance(plugin, DynamicResources)
        self.plugin = plugin
        self.derive = derive_with(gates)
        self.inventory = Inventory.shared(handle)
        for obj in objects:
            self._add(obj)
        self.stores.of(Pod).set(self.api.put(self.pod))
        for tree in case.get("pendingAllocations") or ():
            self.inventory.claims.add_pending(convert(ResourceClaim, tree))
        self.before = {_key(claim): claim for claim in self.api.all(ResourceClaim)}

    def _add(self, obj: Any) -> None:
        obj = self.api.put(obj)
        self.stores.of(type(obj)).set(obj)
        if isinstance(obj, Node):
            self.cluster.set_node(obj)
        elif isinstance(obj, Namespace):
            self.cluster.set_namespace(obj.metadata.name, obj.metadata.labels)
        elif isinstance(obj, Pod) and obj.spec.node_name:
            self.cluster.add_pod(self.derive(obj))

    # The cycle

    def answer(self) -> dict[str, Any]:
        outcome: dict[str, Any] = {"feasible": [], "dra": {}}
        status = self.plugin.pre_enqueue(self.pod)
        if status is not None:
            outcome["dra"]["preEnqueue"] = _status(status)
        state, diagnosis = CycleState(self.derive(self.pod)), Diagnosis()
        found = self.cycle.search(state, self.pod, self.runner, diagnosis)
        if isinstance(found, Status):
            return self._failed(found, outcome)
        if diagnosis.pre_filter is not None:
            outcome["preFilter"] = _status(diagnosis.pre_filter)
        if diagnosis.considered is not None:
            outcome["preFilterNodes"] = sorted(diagnosis.considered)
        nodes, _ = found
        outcome["feasible"] = sorted(nodes.names())
        rejections = dict(diagnosis.explicit)
        for rows, status in diagnosis.rows():
            rejections.update((self.cluster.names[row], status) for row in rows.tolist())
        if rejections and diagnosis.pre_filter is None:
            outcome["filter"] = {name: _status(status) for name, status in rejections.items()}
            alone = self._node_by_node(state, diagnosis.considered)
            assert alone == (outcome["feasible"], outcome["filter"]), (
                "asked alone, nodes are judged otherwise"
            )
        if not outcome["feasible"]:
            self._post_filter(state, diagnosis, outcome)
            return outcome
        self._note_allocations(state, outcome)
        scores = self.cycle.rank(state, self.pod, self.runner, nodes)
        assert not isinstance(scores, Status), scores
        names = nodes.names()
        outcome["scores"] = {
            plugin: dict(zip(names, row.tolist(), strict=True)) for plugin, row in scores.by_plugin.items()
        }
        totals = outcome["totals"] = dict(zip(names, scores.totals.tolist(), strict=True))
        best = min(totals, key=lambda name: (-totals[name], name))
        bound = self._bind(best)
        if bound is not None:
            outcome["dra"]["bind"] = bound
        return outcome

    def _failed(self, failure: Status, outcome: dict[str, Any]) -> dict[str, Any]:
        """An Error ends the cycle; the corpus states the status of every node all the same."""
        state = CycleState(self.derive(self.pod))
        prepared = self.runner.pre_filtering.run(state, self.pod, self.cluster.all_nodes())
        if not prepared.status.is_success:
            outcome["preFilter"] = _status(failure)
            return outcome
        outcome["feasible"], outcome["filter"] = self._node_by_node(state, prepared.node_names)
        self._note_allocations(state, outcome)
        return outcome

    def _node_by_node(
        self, state: CycleState, considered: frozenset[str] | set[str] | None
    ) -> tuple[list[str], dict[str, Any]]:
        feasible, rejected = [], {}
        for node in sorted(self.cluster.all_nodes(), key=lambda node: node.name):
            if considered is not None and node.name not in considered:
                continue
            status = self.runner.filtering.status(state, self.pod, node)
            if status.is_success:
                feasible.append(node.name)
            else:
                rejected[node.name] = _status(status)
        return feasible, rejected

    def _note_allocations(self, state: CycleState, outcome: dict[str, Any]) -> None:
        found, taken = {}, {}
        assert state.pod_info is not None
        for name in outcome["feasible"]:
            if takes := _node_resources(state.placed(state.pod_info, name).pod):
                taken[name] = takes
            in_flight = self.inventory.claims.in_flight
            others = set(in_flight)
            status = self.plugin.reserve(state, self.pod, name)
            assert status is None, status
            made = [in_flight[uid] for uid in in_flight if uid not in others]
            found[name] = [_allocation(claim) for claim in made]
            for claim in made:
                self.inventory.claims.end_pending(claim.metadata.uid)
        if found:
            outcome["dra"]["allocations"] = found
        if taken:
            outcome["dra"]["nodeAllocatable"] = taken

    # Binding

    def _bind(self, node_name: str) -> dict[str, Any] | None:
        info = self.derive(self.pod)
        state = CycleState(info)
        self.runner.pre_filtering.run(state, self.pod, self.cluster.all_nodes())
        node = self.cluster.node_named(node_name)
        assert isinstance(node, NodeRow)
        assert self.runner.filtering.status(state, self.pod, node).is_success
        if self.plugin.pre_bind_pre_flight(state, self.pod, node_name) is SKIP:
            return None
        outcome: dict[str, Any] = {"node": node_name, "preBindPreFlight": "Success"}
        pod = state.placed(info, node_name).pod
        status = self.plugin.reserve(state, pod, node_name)
        assert status is None, status
        status = run_in_virtual_time(lambda: self.plugin.pre_bind(state, pod, node_name))
        outcome["preBind"] = {"code": "Success"} if status is None else _status(status)
        outcome["claims"] = self._claims_now(self._own_claims())
        written = self._written()
        if written.status.extended_resource_claim_status is not None:
            outcome["extendedResourceClaimStatus"] = _generated(
                to_builtins(written.status.extended_resource_claim_status)
            )
        if takes := _node_resources(written):
            outcome["nodeAllocatable"] = takes
        self.plugin.unreserve(state, pod, node_name)
        self._run_background()
        outcome["afterUnreserve"] = self._claims_now(self._own_claims())
        if takes := _node_resources(self._written()):
            outcome["nodeAllocatableAfterUnreserve"] = takes
        assert self._is_all_landed(), "an allocation is still on its way"
        return outcome

    def _written(self) -> Pod:
        return self.api.read(Pod, f"{self.pod.metadata.namespace}/{self.pod.metadata.name}")

    def _is_all_landed(self) -> bool:
        return self.pod.metadata.uid not in {
            consumer.uid
            for claim in self.inventory.claims.in_flight.values()
            for consumer in claim.status.reserved_for
        }

    def _run_background(self) -> None:
        async def run() -> None:
            while self.background:
                await self.background.pop(0)[1]

        run_in_virtual_time(run)

    # PostFilter

    def _post_filter(self, state: CycleState, diagnosis: Diagnosis, outcome: dict[str, Any]) -> None:
        seen = set()
        for _ in range(_ASKED_TIMES if len(self.pod.spec.resource_claims) > 1 else 0):
            self.plugin.post_filter(state, self.pod, diagnosis)
            for name, work in self.background:
                seen.add(name.partition(" ")[2])
                work.close()
            self.background.clear()
        result, _ = self.cycle.run_post_filter(state, self.pod, self.runner, diagnosis)
        assert diagnosis.post_filter is not None
        outcome["postFilter"] = _status(diagnosis.post_filter)
        if result is not None and result.nominated_node:
            outcome["nominatedNode"] = result.nominated_node
        others = [work for name, work in self.background if not name.startswith(_CLAIM_WORK)]
        for work in others:  # evictions, which are not compared
            work.close()
        self.background = [each for each in self.background if each[1] not in others]
        self._run_background()
        if len(seen) > 1:
            outcome["dra"]["postFilterChoices"] = sorted(seen)
        elif changed := self._claims_now(set()):
            outcome["dra"]["postFilterClaims"] = changed

    # What stands in the API

    def _own_claims(self) -> set[str]:
        names = {claim.resource_claim_name for claim in self.pod.spec.resource_claims}
        names |= {status.resource_claim_name for status in self.pod.status.resource_claim_statuses}
        return {f"{self.pod.metadata.namespace}/{name}" for name in names if name is not None}

    def _claims_now(self, always: set[str]) -> list[dict[str, Any]]:
        found = []
        present = {_key(claim): claim for claim in self.api.all(ResourceClaim)}
        for key, claim in present.items():
            old = self.before.get(key)
            is_changed = old is None or (old.status, old.metadata.finalizers) != (
                claim.status,
                claim.metadata.finalizers,
            )
            if not is_changed and key not in always:
                continue
            outcome: dict[str, Any] = {
                "name": claim.metadata.name,
                "finalizers": list(claim.metadata.finalizers),
                "status": _claim_status(claim),
            }
            if old is None:
                outcome |= {
                    "name": _GENERATED.sub(r"\g<1>00000", claim.metadata.name),
                    "created": True,
                    "requests": to_builtins(claim.spec.devices.requests),
                    "ownerReferences": to_builtins(claim.metadata.owner_references),
                    "annotations": to_builtins(claim.metadata.annotations),
                }
            found.append({name: value for name, value in outcome.items() if value or name == "status"})
        found += [
            {"name": claim.metadata.name, "deleted": True}
            for key, claim in self.before.items()
            if key not in present
        ]
        return sorted(found, key=lambda claim: str(claim["name"]))


def _key(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def _allocation(claim: ResourceClaim) -> dict[str, Any]:
    outcome = {"claim": claim.metadata.name, "allocation": _fixed(claim.status.allocation)}
    if claim.metadata.generate_name and claim.spec.devices.requests:
        outcome["requests"] = to_builtins(claim.spec.devices.requests)
    return outcome


def _node_resources(pod: Pod) -> Any:
    return to_builtins(pod.status.node_allocatable_resource_claim_statuses)


def _fixed(allocation: AllocationResult | None) -> dict[str, Any]:
    """Without what is different every time."""
    assert allocation is not None
    tree: dict[str, Any] = to_builtins(allocation)
    for result in tree["devices"].get("results", ()):
        if "shareID" in result:
            result["shareID"] = "*"
    stamp = allocation.allocation_timestamp
    if stamp is not None and abs(stamp - datetime.datetime.now(datetime.UTC)).total_seconds() < 24 * 3600:
        tree["allocationTimestamp"] = "*"
    return tree


def _claim_status(claim: ResourceClaim) -> dict[str, Any]:
    tree: dict[str, Any] = to_builtins(claim.status)
    if claim.status.allocation is not None:
        tree["allocation"] = _fixed(claim.status.allocation)
    return tree


def _generated(tree: dict[str, Any]) -> dict[str, Any]:
    return {**tree, "resourceClaimName": _GENERATED.sub(r"\g<1>00000", tree["resourceClaimName"])}


_FRAMES = {
    "PreFilter": 'running PreFilter plugin "{plugin}": {problem}',
    "Filter": 'running "{plugin}" filter plugin: {problem}',
    "PostFilter": "{problem}",
    "PreBind": 'running "{plugin}" prebind plugin: {problem}',
}
"""Format a plugin's error as upstream's framework does."""


def _status(status: Status) -> dict[str, Any]:
    reasons = list(status.reasons)
    if status.code == Code.ERROR and isinstance(status.cause, PluginError):
        error = status.cause
        problem = str(error).partition(": ")[2]
        reasons = [_FRAMES[error.point].format(plugin=error.plugin, problem=problem)]
    outcome: dict[str, Any] = {"plugin": status.plugin, "code": status.code.label, "reasons": sorted(reasons)}
    return {key: value for key, value in outcome.items() if value}
