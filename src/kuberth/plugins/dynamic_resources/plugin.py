"""DynamicResources: allocates devices for the claims of pods (DRA).

Claims are those that the pod names (`finding`), or those for its extended resources (`extended`). Filter
searches the devices of nodes (`cycle`, `site_results`, `allocator`), Reserve reserves the devices of the
chosen node, and PreBind writes the claims (`writing`) and waits until devices are ready (`binding`).
PostFilter releases devices of unused claims (`releasing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import numpy as np
from msgspec.structs import replace

from kuberth.api.core import Node, Pod
from kuberth.api.resource import (
    AllocationResult,
    DeviceClass,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceSlice,
)
from kuberth.api.scheduling import PodGroup
from kuberth.api.selectors import CompiledNodeSelector, compile_node_selector
from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_groups import pod_group_not_found
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.selection import everywhere, meets_node_selector
from kuberth.config.plugin_args import DynamicResourcesArgs
from kuberth.errors import KuberthError, PluginError, SelectorError
from kuberth.framework.cluster_events import Action, ClusterEvent, Concern, EventWithHint
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.extension_points import (
    EnqueueExtensions,
    FilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
    Scores,
)
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Idle, Inputs, Versioned
from kuberth.framework.scores import normalized
from kuberth.framework.status import SKIP, Code, Status
from kuberth.framework.verdict import Verdict, distinct
from kuberth.informers.store import Store, object_key
from kuberth.plugins.devices.features import DeviceFeatures
from kuberth.plugins.devices.inventory import Inventory
from kuberth.plugins.dynamic_resources import hints
from kuberth.plugins.dynamic_resources.binding import BINDING_SECONDS, ClaimBinder
from kuberth.plugins.dynamic_resources.cycle import Cycle, Variant
from kuberth.plugins.dynamic_resources.extended import IN_MEMORY_NAME, backed_resources, special_claim
from kuberth.plugins.dynamic_resources.finding import (
    ClaimsNotReady,
    claims_of,
    group_in,
    group_name_of,
    is_reserved_for,
    named_claims_of,
    user_for,
    user_of,
)
from kuberth.plugins.dynamic_resources.node_resource_checks import NodeResourceChecks
from kuberth.plugins.dynamic_resources.releasing import Releasing
from kuberth.plugins.dynamic_resources.site_results import (
    FAILED,
    WORK_PER_SECOND,
    BackgroundSearches,
    SearchBudget,
    SiteResults,
    SiteResultsCache,
)
from kuberth.plugins.dynamic_resources.writing import FINALIZER, ClaimWriter
from kuberth.plugins.hints import on_any, on_new
from kuberth.plugins.resources.requests import REQUEST_FIELDS
from kuberth.plugins.verdict_builder import Positions, VerdictBuilder

_STATE: Final = StateKey[Cycle]("DynamicResources")
_GIVEN_TO_GROUP: Final = StateKey[set[str]]("DynamicResources/given")
"""UIDs of the claims that were allocated for pods of a group in this attempt."""
_GROUP_BUDGET: Final = StateKey[SearchBudget]("DynamicResources/search budget")

_DISABLED: Final = Status.unschedulable("plugin disabled")
_NO_CLAIMS: Final = Status.unschedulable("no new claims to deallocate")
_NOT_FOUND: Final = Status(
    Code.ERROR,
    "not found",
    plugin="DynamicResources",
    cause=PluginError("DynamicResources", "PostFilter", "not found"),
)
"""Upstream's message if PreFilter ended before this plugin, which then has no state.

It is an error, so no other PostFilter plugin runs; none could help a pod that PreFilter rejected for all
nodes.
"""

_OF_SITES: Final = (
    Status.unresolvable("cannot allocate all claims"),
    Status.unresolvable("invalid resource pools were encountered"),
)
"""The statuses of the codes NO_SOLUTION and INVALID_POOLS."""
_NOT_AVAILABLE: Final = Status.unresolvable("resourceclaim not available on the node")
_STALE_CLAIM: Final = Status.unresolvable("cannot schedule extended resource claim")
_CANNOT_FIT: Final = Status.unresolvable("cannot fit resource")
_TAINT_RULES: Final = "devicetaintrules.v1beta2.resource.k8s.io"
"""Upstream reports changes of DeviceTaintRules as changes of slices."""


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    EnqueueExtensions,
):
    name = "DynamicResources"
    gates_only_with = ("spec.resource_claims",)

    def __init__(self, args: DynamicResourcesArgs | None, handle: Handle) -> None:
        args = DynamicResourcesArgs() if args is None else args
        gates = handle.feature_gates
        self._enabled = gates.enabled("DynamicResourceAllocation")
        self._extended = gates.enabled("DRAExtendedResource")
        self._features = DeviceFeatures.of(gates)
        self._has_rules = gates.enabled("DRADeviceTaintRules")
        self._with_groups = gates.enabled("DRAWorkloadResourceClaims")
        self._groups = handle.stores.of(PodGroup) if self._with_groups else Store[PodGroup]()
        self._hints_are_on = gates.enabled("SchedulerQueueingHints")
        self._handle = handle
        self._search_work: int | None = None
        if args.filter_timeout is not None and gates.enabled("DRASchedulerFilterTimeout"):
            self._search_work = int(args.filter_timeout.total_seconds() * WORK_PER_SECOND) or None
        classes: tuple[Versioned, ...] = ()
        if self._enabled:
            inventory = self._inventory = Inventory.shared(handle)
            classes = (inventory.classes.store.changes,)
            self._background = BackgroundSearches(inventory.refresh, limit=self._search_work)
            self._results_cache = handle.shared.of(SiteResultsCache, lambda: SiteResultsCache(inventory))
            self._resource_checks: NodeResourceChecks | None = None
            if self._features.has_node_resources:
                pod_level = gates.enabled("PodLevelResources")
                self._resource_checks = NodeResourceChecks(handle.cluster, inventory, pod_level)
            self._writer = handle.shared.of(
                ClaimWriter,
                lambda: ClaimWriter(
                    handle.api,
                    inventory.claims,
                    handle.clock,
                    metrics=handle.metrics,
                    stamps=inventory.features.has_conditions,
                ),
            )
            timeout = args.binding_timeout
            self._binder = ClaimBinder(
                handle,
                self._writer,
                inventory,
                with_groups=self._with_groups,
                timeout_seconds=BINDING_SECONDS if timeout is None else timeout.total_seconds(),
            )
            groups = self._groups if self._with_groups else None
            self._releasing = Releasing(
                self._writer, inventory.claims, handle.cluster, groups, handle.spawn, handle.rng
            )

        self.inputs = Inputs(
            REQUEST_FIELDS
            | {
                "metadata.uid",
                "metadata.namespace",
                "metadata.name",
                "spec.scheduling_group",
                "status.resource_claim_statuses",
                "status.node_allocatable_resource_claim_statuses",
            },
            only_with={"spec.resource_claims", "info.request.scalars", "info.group"},
            idle=Idle(REQUEST_FIELDS, self._is_idle, classes),
            pre_filter=DependsOn.ANYTHING,
            filter=DependsOn.ANYTHING,
            post_filter=DependsOn.POD,  # there is nothing to deallocate for a pod without claims
            score=DependsOn.ANYTHING,
        )

    def _is_idle(self, info: PodInfo) -> bool:
        """Whether the resource plugins count everything: no claims, no resources backed by a class."""
        if not self._enabled:
            return True
        if info.pod.spec.resource_claims or info.group:
            return False
        return not (self._extended and backed_resources(info.request.scalars, self._inventory.classes))

    def close(self) -> None:
        if self._enabled:
            self._background.close()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if not self._enabled or not pod.spec.resource_claims:
            return None
        try:
            claims_of(pod, self._inventory.claims, with_groups=self._with_groups)
        except ClaimsNotReady as exc:
            return Status.unresolvable(str(exc))
        return None

    # PreFilter

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        assert state.pod_info is not None
        scalars = state.pod_info.request.scalars
        in_group = self._with_groups and bool(group_name_of(pod))
        if not self._enabled or not (pod.spec.resource_claims or scalars or in_group):
            return SKIP
        inventory = self._inventory
        try:
            named = list(named_claims_of(pod, inventory.claims, with_groups=self._with_groups))
        except ClaimsNotReady as exc:
            return Status.unresolvable(str(exc))
        claims = [claim for _, claim in named]
        special: int | None = None
        backed = backed_resources(scalars, inventory.classes) if self._extended else {}
        if backed:
            inventory.refresh()
            special = len(claims)
            claims.append(inventory.claim_created_for(pod.metadata.uid) or special_claim(pod))
        users: dict[str, ResourceClaimConsumerReference] = {}
        if in_group:
            group = group_in(self._groups, pod)
            if group is None:
                return Status.unresolvable(pod_group_not_found(group_name_of(pod)))
            try:
                users = {each.name: user_for(pod, each, group) for each in pod.spec.resource_claims}
            except ClaimsNotReady as exc:
                return Status.unresolvable(str(exc))
        if not claims:
            return SKIP
        selectors: dict[int, CompiledNodeSelector] = {}
        shared: dict[int, AllocationResult] = {}
        to_allocate = []
        for index, claim in enumerate(claims):
            if (pending := self._pending_in_group(state, claim)) is not None:
                claim = claims[index] = replace(claim, status=replace(claim.status, allocation=pending))
                shared[index] = pending
            allocation = claim.status.allocation
            if allocation is None:
                to_allocate.append(index)
                if (status := self._check(claim, is_special=index == special)) is not None:
                    return status
            elif allocation.node_selector is not None:
                selector = selectors[index] = compile_node_selector(allocation.node_selector)
                try:
                    selector.check()
                except SelectorError as exc:
                    return Status.error(exc)
        if to_allocate:
            inventory.refresh()
        budget = self._budget(state)
        cycle = Cycle(
            pod, self._results_cache, claims, special, selectors, to_allocate, budget, backed, shared=shared
        )
        if users:
            cycle.users = {index: users[reference.name] for index, (reference, _) in enumerate(named)}
        if self._resource_checks is not None:
            cycle.names = {reference.name: claim.metadata.uid for reference, claim in named}
            state.placing = partial(self._resource_checks.placed, cycle)
        if special is not None:
            cycle.first_special_uid = claims[special].metadata.uid
        state.write(_STATE, cycle)
        return None

    def _pending_in_group(self, state: CycleState, claim: ResourceClaim) -> AllocationResult | None:
        """The allocation of this claim by another pod of the group in the same attempt, if there is one."""
        uids = None if state.group is None else state.group.state.get(_GIVEN_TO_GROUP)
        if uids is None or claim.metadata.uid not in uids:
            return None
        pending = self._inventory.claims.in_flight.get(claim.metadata.uid)
        return None if pending is None else pending.status.allocation

    def _check(self, claim: ResourceClaim, *, is_special: bool) -> Status | None:
        """Whether a claim can be allocated at all."""
        name = object_key(claim)
        if claim.metadata.uid in self._inventory.claims.in_flight:
            return Status.unresolvable(f"resource claim {name} is in the process of being allocated")
        if is_special:
            return None
        for request in claim.spec.devices.requests:
            if request.exactly is not None:
                classes = {request.name: request.exactly.device_class_name}
            elif request.first_available and not self._features.has_alternatives:
                return Status.unresolvable(
                    f"resource claim {name}, request {request.name}: has subrequests, but the "
                    "DRAPrioritizedList feature is disabled"
                )
            elif request.first_available:
                classes = {
                    f"{request.name}/{each.name}": each.device_class_name for each in request.first_available
                }
            else:
                return Status.unresolvable(
                    f"resource claim {name}, request {request.name}: unknown request type"
                )
            for request_name, class_name in classes.items():
                if not class_name:
                    return Status.error(f"request {request_name}: unsupported request type")
                if self._inventory.classes.get(class_name) is None:
                    return Status.unresolvable(
                        f"request {request_name}: device class {class_name} does not exist"
                    )
        return None

    # Filter

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        cycle = state.get(_STATE)
        if cycle is None:
            return None
        if cycle.to_allocate:
            self._inventory.refresh()  # the cycle may have waited since PreFilter
        builder = VerdictBuilder(nodes, *_OF_SITES)
        self._reject_nodes(cycle, nodes, builder)
        return builder.verdict()

    def _reject_nodes(self, cycle: Cycle, nodes: Nodes, builder: VerdictBuilder) -> None:
        if cycle.special is not None:
            if cycle.claims[cycle.special].spec.devices.requests:
                builder.add(everywhere(nodes), _STALE_CLAIM)
                return
            builder.add(cycle.cannot_fit(nodes), _CANNOT_FIT)
        bits, live = cycle.bits(nodes), nodes.live()
        applies = live
        variants = {each: cycle.variant(each) for each in (distinct(bits) if cycle.backed else (0,))}
        for each, variant in variants.items():
            if variant.results is None and not cycle.user_claims:
                applies = applies & (bits != each)
        if self._resource_checks is not None:
            # Checked before devices are searched, so that this rejection comes first.
            for mask, status in self._resource_checks.users_elsewhere(cycle, nodes, applies & builder.free):
                builder.add(mask, status)
        for each, variant in variants.items():
            if variant.results is not None:
                where = live & (bits == each) if cycle.backed else live
                self._allocate(cycle, variant, variant.results, nodes, where, builder)
        if self._resource_checks is not None and (cycle.to_allocate or cycle.shared):
            for mask, status in self._resource_checks.refusals(cycle, nodes, applies & builder.free):
                builder.add(mask, status)
        # Whether allocated claims can be used from the nodes that have not been rejected.
        for missing in self._missing(cycle, nodes).values():
            builder.add(applies & missing, _NOT_AVAILABLE)

    def _allocate(
        self,
        cycle: Cycle,
        variant: Variant,
        results: SiteResults,
        nodes: Nodes,
        where: Mask,
        builder: VerdictBuilder,
    ) -> None:
        """Reject the nodes among these that lack devices."""
        positions: Positions = slice(None) if where.all() else np.flatnonzero(where)
        sites = nodes.take(self._inventory.sites.of_row)[positions]
        if not len(sites):
            return
        results.update(sites, cycle.budget)
        if results.is_unfinished:
            self._background.add(results)
        codes = found = results.codes[sites]
        if found.max() >= FAILED:
            codes = found.copy()
            for code in distinct(found[found >= FAILED]):
                failure = results.failures[code - FAILED]
                if failure is None:
                    name = nodes.name(int(np.arange(len(nodes))[positions][found == code][0]))
                    problem = f"node {name}: timed out trying to allocate devices"
                else:
                    problem = failure.message(cycle.demanded_claims(variant))
                codes[found == code] = builder.code(_filter_error(problem))
        builder.add_codes(positions, codes)

    def _budget(self, state: CycleState) -> SearchBudget:
        """The search budget of this attempt: one for all pods of a group."""
        budget = None if state.group is None else state.group.state.get(_GROUP_BUDGET)
        if budget is None:
            budget = SearchBudget(self._search_work)
            if state.group is not None:
                state.group.state.write(_GROUP_BUDGET, budget)
        return budget

    def _missing(self, cycle: Cycle, nodes: Nodes) -> dict[int, Mask]:
        """The nodes that cannot use allocated claims."""
        missing = {}
        for index, claim in enumerate(cycle.claims):
            if claim.status.allocation is None:
                continue
            if self._binder.has_failed(claim):
                missing[index] = np.ones(len(nodes), np.bool_)
            elif index in cycle.selectors:
                missing[index] = ~meets_node_selector(nodes, cycle.selectors[index])
        return missing

    # PostFilter

    def post_filter(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Deallocate an unused claim that keeps the pod from its nodes."""
        if not self._enabled:
            return None, _DISABLED
        if self.name in state.missed_pre_filter:
            return None, _NOT_FOUND
        cycle = state.get(_STATE)
        if cycle is None:
            return None, _NO_CLAIMS
        candidates = self._unavailable(cycle, diagnosis)
        return None, self._releasing.release(cycle, pod, candidates, self._activation_of(pod))

    def _unavailable(self, cycle: Cycle, diagnosis: Diagnosis) -> list[int]:
        """Claims whose devices cannot be used on some node that is otherwise feasible."""
        found = [rows for rows, status in diagnosis.rows() if status == _NOT_AVAILABLE.by(self.name)]
        if not found:
            return []
        missing = self._missing(cycle, Nodes(self._handle.cluster, np.concatenate(found)))
        # Pending allocations of the pod's group are not released.
        return [
            index for index, mask in missing.items() if index not in cycle.shared and np.count_nonzero(mask)
        ]

    # Score

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Scores:
        """Higher for nodes that offer earlier alternatives of prioritized lists."""
        scores: Scores = np.zeros(len(nodes), np.int64)
        cycle = state.get(_STATE)
        if cycle is None or not cycle.to_allocate or not self._features.has_alternatives:
            return scores
        self._inventory.refresh()
        before = cycle.score_of_allocated()
        sites = nodes.take(self._inventory.sites.of_row)
        bits = cycle.bits(nodes)
        for each in distinct(bits):
            results = cycle.variant(each).results
            if results is not None:
                results.update(sites[bits == each], cycle.budget)
                scores[bits == each] = results.scores[sites[bits == each]] + before
        return scores

    def normalize_scores(self, _state: CycleState, _pod: Pod, scores: Scores) -> Scores:
        return normalized(scores)

    # Reserve

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Reserve the devices of the node."""
        cycle = state.get(_STATE)
        if cycle is None:
            return None
        if (status := self._share_pending(cycle)) is not None or not cycle.to_allocate:
            return status
        node = self._handle.cluster.node_named(node_name)
        if node is None:
            return Status.error(f'node "{node_name}" does not exist any more')
        # Other cycles may have finished while this one waited: check the devices again.
        self._inventory.refresh()
        claims = self._inventory.claims
        for index in cycle.to_allocate:
            metadata = cycle.claims[index].metadata
            if metadata.uid in claims.in_flight:
                name = f"{metadata.namespace}/{metadata.name}"
                return Status.unresolvable(f"resource claim {name} is in the process of being allocated")
        if not cycle.choose_node(node):
            if any(index != cycle.special for index in cycle.to_allocate):
                return Status.error("claim allocation not found for node")
            return None
        for index, allocation in cycle.allocations.items():
            claim = cycle.claims[index]
            if index == cycle.special and cycle.created is not None:
                claim = cycle.created
            finalizers = claim.metadata.finalizers
            if FINALIZER not in finalizers:
                finalizers = (*finalizers, FINALIZER)
            claims.add_pending(
                replace(
                    claim,
                    metadata=replace(claim.metadata, finalizers=finalizers),
                    status=replace(claim.status, allocation=allocation),
                )
            )
            cycle.pending.add(claim.metadata.uid)
        if state.group is not None:
            group = state.group.state
            group.write(_GIVEN_TO_GROUP, (group.get(_GIVEN_TO_GROUP) or set()) | cycle.pending)
        return None

    def _share_pending(self, cycle: Cycle) -> Status | None:
        """Use the pending allocation of another pod of the group."""
        claims = self._inventory.claims
        for index, expected in cycle.shared.items():
            claim = cycle.claims[index]
            pending = claims.in_flight.get(claim.metadata.uid)
            found = None if pending is None else pending.status.allocation
            if found is None or _devices(found) != _devices(expected):
                name = object_key(claim)
                return Status.unresolvable(
                    f"resource claim {name} is not allocated for the pod group any more"
                )
            claims.share_pending(claim.metadata.uid)
            cycle.pending.add(claim.metadata.uid)
            cycle.shared[index] = found
        return None

    def unreserve(self, state: CycleState, pod: Pod, _node_name: str) -> None:
        """Release the devices. Written allocations stay, but are not reserved for this pod any more."""
        cycle = state.get(_STATE)
        if cycle is None:
            return
        for claim in cycle.user_claims:
            if claim.metadata.uid in cycle.pending:
                self._release_pending(claim, pod)
            if claim.status.allocation is not None and is_reserved_for(pod, claim):
                work = self._writer.release(claim, user_of(pod))
                self._handle.spawn(work, name=f"release {claim.metadata.name}")
        if cycle.special is not None:
            special = cycle.claims[cycle.special]
            self._inventory.claims.end_pending(cycle.first_special_uid)
            if special.metadata.name != IN_MEMORY_NAME:
                self._handle.spawn(self._writer.delete(special), name=f"delete {special.metadata.name}")

        if cycle.has_patched_status:
            self._handle.spawn(
                self._writer.clear_pod_status(pod), name=f"clear status of {pod.metadata.name}"
            )
        cycle.pending.clear()

    def _release_pending(self, claim: ResourceClaim, pod: Pod) -> None:
        uid = claim.metadata.uid
        if uid in self._writer.in_doubt:
            # Until this is known, attempts of the pod find its claim pending; no event reports that it is
            # not.
            again = self._activation_of(pod)
            self._handle.spawn(
                self._writer.resolve_doubt(claim, again), name=f"claim in doubt {claim.metadata.name}"
            )
        else:
            self._inventory.claims.release_pending(uid)

    def _activation_of(self, pod: Pod) -> Callable[[], None]:
        return partial(self._handle.activator.activate, {object_key(pod): pod})

    # PreBind

    def pre_bind_pre_flight(self, state: CycleState, _pod: Pod, _node_name: str) -> Status | None:
        return SKIP if state.get(_STATE) is None else None

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        cycle = state.get(_STATE)
        if cycle is None:
            return None
        try:
            await self._binder.bind(cycle, pod, node_name)
        except KuberthError as exc:
            return Status.error(exc)
        return None

    # Events

    def events_to_register(self) -> Iterable[EventWithHint]:
        if not self._enabled:
            return []
        node_change = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        if not self._hints_are_on:
            # Without hints, a new node may be rejected until its taints change.
            node_change |= Action.UPDATE_NODE_TAINT
        added_or_updated = Action.ADD | Action.UPDATE
        rules = [EventWithHint(ClusterEvent(_TAINT_RULES, Action.ALL))] if self._has_rules else []
        users, with_groups = Concern(hints.claims_named_by, hints.users_of), self._with_groups
        claim_change = partial(hints.claim_change_helps, self._inventory.claims)
        pod_change = partial(hints.pod_change_helps, self._inventory.claims)
        return [
            *rules,
            on_any(Node, node_change),
            on_new(ResourceClaim, added_or_updated, partial(claim_change, with_groups=with_groups), users),
            on_new(
                Pod, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, partial(pod_change, with_groups=with_groups)
            ),
            on_any(DeviceClass, added_or_updated),
            on_any(ResourceSlice, added_or_updated),
        ]


def _devices(allocation: AllocationResult) -> list[tuple[str, str, str, str]]:
    """An allocated device; shares of one device are distinguished by their pods, not here."""
    return [(each.request, each.driver, each.pool, each.device) for each in allocation.devices.results]


def _filter_error(problem: str) -> Status:
    """An Error of Filter with kube-scheduler's message."""
    return Status(
        Code.ERROR,
        f'running "{DynamicResources.name}" filter plugin: {problem}',
        plugin=DynamicResources.name,
        cause=PluginError(DynamicResources.name, "Filter", problem),
    )
