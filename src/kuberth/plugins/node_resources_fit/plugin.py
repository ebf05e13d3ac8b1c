"""NodeResourcesFit: rejects nodes without enough resources, and scores nodes by utilization."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from operator import floordiv
from typing import Final

import numpy as np

from kuberth.api.core import Node, Pod
from kuberth.api.pod_resources import is_extended_resource
from kuberth.api.resource import DeviceClass
from kuberth.cluster.arrays import Column
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.resource_columns import MEMORY
from kuberth.config.plugin_args import NodeResourcesFitArgs, ResourceSpec
from kuberth.errors import QuantityError
from kuberth.framework.cluster_events import Action, EventWithHint
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.extension_points import (
    EnqueueExtensions,
    FilterPlugin,
    PlacementScorePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ProposedPlacement,
    ScorePlugin,
    Scores,
)
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.status import SKIP, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.devices.inventory import Backing
from kuberth.plugins.hints import on_change, on_new
from kuberth.plugins.node_resources_fit import hints
from kuberth.plugins.node_resources_fit.strategies import most_allocated, strategy_of, toward_zero
from kuberth.plugins.resources.allocation import Share, Use, scores_of, shares_of, uses_of_one
from kuberth.plugins.resources.requests import (
    REQUEST_FIELDS,
    Amounts,
    amounts_for_fit_score,
    positive_amounts,
    request_of_pending,
)
from kuberth.plugins.resources.shortages import NOTHING, shortage, shortages

_AMOUNTS: Final = StateKey[Amounts]("NodeResourcesFit/amounts")
_SHARES: Final = StateKey[tuple[Share, ...]]("NodeResourcesFit/shares")


class NodeResourcesFit(
    PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, PlacementScorePlugin, EnqueueExtensions
):
    name = "NodeResourcesFit"

    def __init__(self, args: NodeResourcesFitArgs | None, handle: Handle) -> None:
        args = args or NodeResourcesFitArgs()
        gates = handle.feature_gates
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._resources = args.scoring_strategy.resources
        self._strategy = strategy_of(args.scoring_strategy)
        self._pod_level = gates.enabled("PodLevelResources")
        self._hints_are_on = gates.enabled("SchedulerQueueingHints")
        self._device_classes = gates.enabled("DRAExtendedResource")
        self._backing = Backing(handle)
        self.inputs = Inputs(
            REQUEST_FIELDS,
            pre_filter=DependsOn.POD,
            filter=DependsOn.REQUESTS,
            pre_score=self._backing.without_devices(self._resources, DependsOn.POD),
            score=self._backing.without_devices(self._resources, DependsOn.REQUESTS),
            versions=self._backing.versions,
        )

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        try:
            request = request_of_pending(pod, info=state.pod_info, pod_level=self._pod_level)
        except QuantityError as exc:
            return Status.unresolvable(f"the pod's resource requests cannot be read: {exc}")
        amounts = positive_amounts(request)
        if self._ignored or self._ignored_groups:
            amounts = {name: amount for name, amount in amounts.items() if not self._is_ignored(name)}
        state.write(_AMOUNTS, amounts)
        return None

    def _is_ignored(self, resource: str) -> bool:
        """Whether the resource is ignored, usually for an extender; only extended resources can be."""
        return is_extended_resource(resource) and (
            resource in self._ignored or resource.partition("/")[0] in self._ignored_groups
        )

    def filter(self, state: CycleState, _pod: Pod, node: NodeRow) -> Status | None:
        amounts = state.read(_AMOUNTS)
        return shortage(node, amounts, self._backed(state))

    def filter_nodes(self, state: CycleState, _pod: Pod, nodes: Nodes) -> Verdict | None:
        return shortages(nodes, state.read(_AMOUNTS), self._backed(state))

    def _backed(self, state: CycleState) -> frozenset[str]:
        """Resources of the pod that devices may back."""
        info = state.pod_info
        if info is None or not info.request.scalars:
            return NOTHING
        return self._backing.backed(info.request.scalars)

    def pre_score(self, state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        assert state.pod_info is not None
        try:
            amounts = amounts_for_fit_score(pod, state.pod_info)
        except QuantityError:
            return SKIP
        state.write(_SHARES, shares_of(self._resources, amounts, self._backing.counts))
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        uses = uses_of_one(node, state.read(_SHARES), with_defaults=True)
        if uses is None:
            return int(self.score_nodes(state, pod, node.alone)[0])
        return self._strategy(uses, floordiv)

    def score_nodes(self, state: CycleState, _pod: Pod, nodes: Nodes) -> Scores:
        return scores_of(
            nodes, state.read(_SHARES), lambda uses: self._strategy(uses, toward_zero), with_defaults=True
        )

    def score_placement(self, _state: CycleState, _group: str, proposed: ProposedPlacement) -> int:
        return fullness(proposed, self._resources)

    def events_to_register(self) -> Iterable[EventWithHint]:
        node_change = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE
        if not self._hints_are_on:
            # Without hints, a new node may be rejected until its taints or labels change.
            node_change |= Action.UPDATE_NODE_TAINT | Action.UPDATE_NODE_LABEL
        node_change_helps = partial(
            hints.node_change_helps, pod_level=self._pod_level, backed=self._backing.backed
        )
        yield on_change(Pod, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN, hints.pod_change_helps)
        yield on_change(Node, node_change, node_change_helps)
        if self._device_classes:
            yield on_new(DeviceClass, Action.ADD | Action.UPDATE, hints.device_class_change_helps)


def fullness(proposed: ProposedPlacement, resources: Iterable[ResourceSpec]) -> int:
    asked: Counter[str] = Counter()
    for info in proposed.pods:
        try:
            asked.update(amounts_for_fit_score(info.pod, info))
        except QuantityError:
            continue  # it has no valid request
    nodes, table = proposed.candidate.nodes, proposed.candidate.nodes.table
    uses: list[Use[Column]] = []
    for share in shares_of(resources, asked):
        index = table.resource_index(share.resource)
        if index is None:
            continue
        offered = nodes.take(table.allocatable[index])
        counts = table.nonzero_requested if index <= MEMORY else table.requested
        has = offered != 0
        whole = int(offered.sum())
        if whole:
            taken = int(np.where(has, nodes.take(counts[index]), 0).sum())
            after = min(taken + share.amount, whole)
            # Sums over many nodes are large: arrays overflow as upstream's integers do.
            uses.append((share.weight, np.array([whole]), np.array([after]), 0))
    return int(np.sum(most_allocated(uses, toward_zero)))
