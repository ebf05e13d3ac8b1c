"""The Filter phase, in which pods nominated for a node count as if they were there.

In: a cycle state after PreFilter, a pod, a view of the cluster table. Out: which nodes pass and why the
others do not; for the search, for preemption, and for single nodes in a what-if.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from kuberth.api.core import Pod
from kuberth.api.pod_resources import pod_priority
from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.extension_points import PreFilterExtensions
from kuberth.framework.inputs import DependsOn
from kuberth.framework.nominator import Nominator
from kuberth.framework.plan import Plan
from kuberth.framework.profile import Profile
from kuberth.framework.running.calls import ADD_POD, REMOVE_POD, Calls, raised
from kuberth.framework.running.filters import Block, Filter, Filters
from kuberth.framework.status import SUCCESS, Code, Status
from kuberth.framework.verdict import Verdict


class FilterResult(NamedTuple):
    """The result of Filter for a view."""

    nodes: Nodes
    passing: Mask
    """bool[position] of the view; read-only."""
    blocks: Sequence[Block] = ()
    """Rejections of nodes without nominated pods."""
    nominated: Sequence[Block] = ()
    """Rejections of nodes with their nominated pods; these take precedence."""
    plan: Plan | None = None
    """The plugins that rejected the nodes in no block."""

    def rejections(self) -> Iterator[Block]:
        """Every rejected position once, with the rejection that counts."""
        reported = np.zeros(len(self.passing), np.bool_)
        for block in (*self.nominated, *self.blocks):
            new = ~reported[block.positions]
            if new.any():
                yield block._replace(positions=block.positions[new], codes=block.codes[new])
            reported[block.positions] = True
        if self.plan is not None:
            yield from self.plan.rejections(self.nodes, (~(self.passing | reported)).nonzero()[0])


class Filtering:
    """Calls Filter plugins."""

    def __init__(
        self,
        profile: Profile,
        *,
        cluster: ClusterTable,
        nominator: Nominator,
        calls: Calls,
        filters: Filters,
    ) -> None:
        self._profile = profile
        self._cluster = cluster
        self._nominator = nominator
        self._calls = calls
        self._filters = filters
        self._all = filters.all
        self._followers = tuple(
            plugin for plugin in profile.pre_filter if isinstance(plugin, PreFilterExtensions)
        )
        self._follower_names = frozenset(plugin.name for plugin in self._followers)

    # The search

    def evaluate(self, state: CycleState, pod: Pod, nodes: Nodes) -> FilterResult | Status:
        """Which nodes of the view pass, also with nominated pods. An Error status aborts the search."""
        equal_pods = state.equal_pods
        if equal_pods is not None and nodes.places is not None and not self._cluster.is_supposing:
            plan = equal_pods.plan
            passing = None if plan is None else plan.feasible(nodes.places, state, pod)
            if passing is not None:
                if not equal_pods.uncached_filters and not self._nominator.by_node:  # the usual case
                    return FilterResult(nodes, passing, plan=plan)
                return self._evaluate_rest(state, pod, nodes, passing, equal_pods.uncached_filters, plan)
        return self._evaluate_rest(state, pod, nodes, nodes.live(), self._all, None)

    def _evaluate_rest(
        self,
        state: CycleState,
        pod: Pod,
        nodes: Nodes,
        alive: Mask,
        filters: Sequence[Filter],
        plan: Plan | None,
    ) -> FilterResult | Status:
        """Run the filters that a plan does not cover, and evaluate nodes with nominated pods."""
        evaluated = self._filters.evaluate(filters, state, pod, nodes, alive)
        if isinstance(evaluated, Status):
            return evaluated
        blocks, passing = evaluated
        if not self._nominator.by_node:
            return FilterResult(nodes, passing, blocks, plan=plan)
        passing, nominated = passing.copy(), list[Block]()
        own = None
        if plan is not None:
            # A plan treats this pod's nominated node like equal pods do.
            own = nodes.position(self._nominator.node_of(pod.metadata.uid))
            if own is not None:
                status = self.status(state, pod, nodes.node(own))
                if status.code == Code.ERROR:
                    return status
                if status.is_success and not passing.item(own):
                    state.equal_pods = (
                        None  # a plan has no scores of nodes that are not feasible for equal pods
                    )
                passing[own] = status.is_success
                nominated += [] if status.is_success else [_block(own, status)]
        if plan is None or any(each.name not in state.skip_filter for each in filters):
            settled = self._rejected_by_objects(state, blocks) if plan is None else set[int]()
            found = self._evaluate_nominated(state, pod, nodes, but={*settled, own})
            if isinstance(found, Status):
                return found
            nominated += found
        for block in nominated:
            passing[block.positions] = False
        return FilterResult(nodes, passing, blocks, nominated, plan)

    def observe(self, status: Status, started: float) -> None:
        """Record how long the evaluation of a search's nodes took."""
        self._calls.observe("Filter", status, started)

    def run(self, state: CycleState, pod: Pod, nodes: Nodes, diagnosis: Diagnosis) -> Mask | Status:
        """Like `evaluate`, and write the rejections to `diagnosis`."""
        result = self.evaluate(state, pod, nodes)
        if isinstance(result, Status):
            return result
        status = self.report(result, diagnosis)
        return result.passing if status.is_success else status

    def report(self, result: FilterResult, diagnosis: Diagnosis) -> Status:
        """Write the rejections to `diagnosis`; an Error if a plugin cannot name a reason."""
        for block in result.rejections():
            try:
                rows = result.nodes.rows_at(block.positions)
                diagnosis.add_block(block.plugin, rows, block.verdict, block.codes)
            except BaseException as exc:  # the plugin's function from code to status
                return raised(self._profile.plugins[block.plugin], "Filter", exc)
        return SUCCESS

    # Nodes with nominated pods

    def _evaluate_nominated(
        self, state: CycleState, pod: Pod, nodes: Nodes, *, but: Container[int | None]
    ) -> list[Block] | Status:
        """Rejections of nodes with nominated pods, as if these pods were there already."""
        pods = {
            position: nominated
            for name in self._nominator.nominated_nodes()
            if (position := nodes.position(name)) is not None
            and position not in but
            and (nominated := self._nominated_to(pod, name))
        }
        if not pods:
            return []
        positions = sorted(pods)
        found: list[Block] = []
        if not self.evaluates_nodes_independently(state):
            for position in positions:
                status = self._evaluate_with_nominated(state, pod, nodes.node(position))
                if status.code == Code.ERROR:
                    return status
                if not status.is_success:
                    found.append(_block(position, status))
            return found
        together = np.array(positions, np.intp)
        view = nodes.at(together)
        by_row = dict(zip(view.rows().tolist(), map(pods.__getitem__, positions), strict=True))
        with self._cluster.what_if_with(by_row, requests_alone=self.reads_requests_alone(state)):
            evaluated = self._filters.evaluate(self._all, state, pod, view, view.live())
        if isinstance(evaluated, Status):
            return evaluated
        return [block._replace(positions=together[block.positions]) for block in evaluated[0]]

    def _rejected_by_objects(self, state: CycleState, blocks: Sequence[Block]) -> set[int]:
        """The positions rejected by a filter for which nominated pods make no difference."""
        before = set[str]()
        for name, depends_on in self._stated(state):
            if depends_on not in (DependsOn.POD, DependsOn.NODE_OBJECT):
                break
            before.add(name)
        return {
            position for block in blocks if block.plugin in before for position in block.positions.tolist()
        }

    def _nominated_to(self, pod: Pod, node_name: str) -> list[PodInfo]:
        """The pods nominated for a node that have at least this pod's priority."""
        priority = pod_priority(pod)
        return [
            nominated
            for nominated in self._nominator.nominated_on(node_name)
            if nominated.uid != pod.metadata.uid and nominated.priority >= priority
        ]

    def _evaluate_with_nominated(self, state: CycleState, pod: Pod, node: NodeRow) -> Status:
        """The verdict as if the pods nominated for the node were already there."""
        trial = state.clone()
        with self._cluster.what_if() as what_if:
            for nominated in self._nominated_to(pod, node.name):
                what_if.add_pod(nominated, node.row)
                status = self.run_add_pod(trial, pod, nominated, node)
                if not status.is_success:
                    return status
            return self._filters.evaluate_one(self._all, trial, pod, node)

    # Questions about single nodes and what-ifs

    def status(self, state: CycleState, pod: Pod, node: NodeRow, *, with_nominated: bool = True) -> Status:
        """The verdict on one node in its current state, with nominated pods; used by preemption."""
        if with_nominated and self._nominated_to(pod, node.name):
            status = self._evaluate_with_nominated(state, pod, node)
            if not status.is_success:
                return status
        return self._filters.evaluate_one(self._all, state, pod, node)

    def objections(self, state: CycleState, pod: Pod, nodes: Nodes) -> Sequence[Block] | Status:
        """The objections of all plugins to the nodes of a view, including nodes that others have rejected.

        For users: a cycle only needs the first plugin that rejects a node. A Status if a plugin failed.
        """
        found: list[Block] = []
        for each in self._all:
            evaluated = self._filters.evaluate((each,), state, pod, nodes, nodes.live())
            if isinstance(evaluated, Status):
                return evaluated
            found += evaluated[0]
        return found

    def admits(self, info: PodInfo, node: NodeRow, *, filters: Collection[str]) -> bool:
        """Whether these filters alone accept the pod on the node."""
        state = CycleState(info)
        skipped = {plugin.name for plugin in self._profile.filter if plugin.name not in filters}
        for plugin in self._profile.pre_filter:
            if plugin.name in filters:
                answer = self._calls.call(plugin, "PreFilter", plugin.pre_filter, state, info.pod, node.alone)
                if isinstance(answer, Status) and answer.is_rejected:
                    return False
                if isinstance(answer, Status) and answer.is_skip:
                    skipped.add(plugin.name)
        state.skip_filter = frozenset(skipped)
        return self._filters.evaluate_one(self._all, state, info.pod, node).is_success

    def run_as_is(
        self,
        state: CycleState,
        pod: Pod,
        nodes: Nodes,
        diagnosis: Diagnosis | None = None,
        *,
        filters: Sequence[Filter] | None = None,
    ) -> Mask | Status:
        """Like `run`, but only with the pods in the table; the caller handles nominations.

        `filters`: only these.
        """
        evaluated = self._filters.evaluate(
            self._all if filters is None else filters, state, pod, nodes, nodes.live()
        )
        if isinstance(evaluated, Status):
            return evaluated
        blocks, passing = evaluated
        status = SUCCESS
        if diagnosis is not None:
            status = self.report(FilterResult(nodes, passing, blocks), diagnosis)
        return passing if status.is_success else status

    def nominated_to_others(self, pod: Pod, nodes: Nodes) -> Mapping[int, Sequence[PodInfo]]:
        """By row: the nominated pods that have at least this pod's priority, if there are any."""
        found: dict[int, Sequence[PodInfo]] = {}
        for name in self._nominator.nominated_nodes():
            position = nodes.position(name)
            if position is not None and (pods := self._nominated_to(pod, name)):
                found[nodes.row(position)] = pods
        return found

    # Updating PreFilter data in a what-if

    def run_add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeRow) -> Status:
        """Update PreFilter data: `added` is on `node` now."""
        return self._update(ADD_POD, state, pod, added, node)

    def run_remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeRow) -> Status:
        """Update PreFilter data: `removed` is no longer on `node`."""
        return self._update(REMOVE_POD, state, pod, removed, node)

    def _update(self, point: str, state: CycleState, pod: Pod, other: PodInfo, node: NodeRow) -> Status:
        timed = state.record_plugin_metrics
        for plugin in self._followers:
            if plugin.name not in state.skip_filter:
                method = plugin.add_pod if point == ADD_POD else plugin.remove_pod
                status = self._calls.status(plugin, point, method, state, pod, other, node, timed=timed)
                if not status.is_success:
                    return status
        return SUCCESS

    # What the statements imply about the filters

    def evaluates_nodes_independently(self, state: CycleState) -> bool:
        """Whether no verdict on a node depends on other nodes, so that a what-if may cover many nodes."""
        return self._follower_names <= state.skip_filter and not any(
            depends_on.spans_nodes for _name, depends_on in self._stated(state)
        )

    def evaluates_equal_pods_alike(self, state: CycleState) -> bool:
        """Whether equal pods get the same verdict on a node until the node's row changes."""
        equal_pods = state.equal_pods
        return equal_pods is not None and all(
            each.name in state.skip_filter for each in equal_pods.uncached_filters
        )

    def reads_requests_alone(self, state: CycleState) -> bool:
        """Whether all filters read only the number of pods on a node and the sums of their requests."""
        return self.evaluates_nodes_independently(state) and not any(
            depends_on is DependsOn.NODE for _name, depends_on in self._stated(state)
        )

    def leading_on_requests(self, state: CycleState) -> Sequence[Filter]:
        """The filters before the first one that reads more than the sums of requests on a node.

        None of them if a plugin that is to follow changes of pods states no inputs.
        """
        stated = dict(self._stated(state))
        followers = self._follower_names - state.skip_filter
        if any(self._profile.statements.of(name) is None for name in followers):
            return ()
        leading = takewhile(
            lambda each: (
                each.name not in followers
                and not stated[each.name].spans_nodes
                and stated[each.name] is not DependsOn.NODE
            ),
            (each for each in self._all if each.name in stated),
        )
        return tuple(leading)

    def filters_of_node_objects(self, state: CycleState) -> frozenset[str]:
        """Filters whose verdict on a node does not depend on the pods there."""
        return frozenset(
            name
            for name, depends_on in self._stated(state)
            if depends_on in (DependsOn.POD, DependsOn.NODE_OBJECT)
        )

    def _stated(self, state: CycleState) -> Iterator[tuple[str, DependsOn]]:
        """The inputs of every filter that is not skipped; ANYTHING without a statement."""
        for each in self._all:
            if each.name not in state.skip_filter:
                inputs = self._profile.statements.of(each.name)
                depends_on = None if inputs is None else inputs.filter
                yield each.name, DependsOn.ANYTHING if depends_on is None else depends_on


def _block(position: int, status: Status) -> Block:
    one = np.ones(1, np.int64)
    return Block(status.plugin, np.array([position], np.intp), Verdict.choosing(one, status), one)
