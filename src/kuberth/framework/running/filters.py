"""Filter plugins, called over a view of nodes or about one node.

In: a cycle state after PreFilter, a pod, a view of the cluster table. Out: blocks of rejected positions and
the mask of those that pass, with the first plugin that rejects a node; or an Error status.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import FilterPlugin
from kuberth.framework.running.calls import FEW_NODES, Calls, invalid_answer, raised
from kuberth.framework.status import SUCCESS, Code, Status
from kuberth.framework.verdict import Verdict, distinct

_ONE: Final = np.ones(1, np.bool_)


class Block(NamedTuple):
    """Positions of a view that one plugin rejected."""

    plugin: str
    positions: NDArray[np.intp]
    verdict: Verdict
    codes: NDArray[np.int64]


class Filter:
    """One Filter plugin with the forms that it implements."""

    __slots__ = ("has_both", "is_per_node", "labels", "name", "order", "plugin")

    def __init__(self, plugin: FilterPlugin, order: int, profile_name: str) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.labels = (plugin.name, "Filter", profile_name)
        """The key under which its evaluations are counted."""
        self.order = order
        """Its index among the profile's filters: the first rejection of a node counts."""
        per_node = type(plugin).filter is not FilterPlugin.filter
        whole = type(plugin).filter_nodes is not FilterPlugin.filter_nodes
        self.is_per_node = not whole
        self.has_both = per_node and whole


class Filters:
    """Calls the Filter plugins of one profile."""

    def __init__(self, plugins: Sequence[FilterPlugin], calls: Calls) -> None:
        self.all = [Filter(plugin, order, calls.profile_name) for order, plugin in enumerate(plugins)]
        """In order."""
        self._calls = calls
        self._evaluations = calls.evaluations

    def evaluate(
        self,
        filters: Iterable[Filter],
        state: CycleState,
        pod: Pod,
        nodes: Nodes,
        alive: Mask,
    ) -> tuple[list[Block], Mask] | Status:
        """Run the filters in order: the first rejection of every `alive` node, and which nodes are left."""
        point, blocks = "Filter", list[Block]()
        left = len(alive.nonzero()[0])
        timed = state.record_plugin_metrics
        for each in filters:
            if not left:
                break
            if each.name in state.skip_filter:
                continue
            plugin = each.plugin
            self._evaluations[each.labels] = self._evaluations.get(each.labels, 0) + left
            if each.is_per_node or (each.has_both and len(nodes) <= FEW_NODES):
                answered = self._each_node(each, state, pod, nodes, alive)
                if isinstance(answered, Status):
                    return answered
                verdict = answered
            else:
                answer = self._calls.call(plugin, point, plugin.filter_nodes, state, pod, nodes, timed=timed)
                if answer is None:
                    continue
                if isinstance(answer, Status) and answer.code == Code.ERROR:
                    return self._calls.checked(plugin, "Filter", answer)
                if not isinstance(answer, Verdict) or not _is_over(answer, len(nodes)):
                    return invalid_answer(
                        plugin,
                        "Filter",
                        answer,
                        f"a Verdict over {len(nodes)} nodes, an Error status or None",
                    )
                verdict = answer
            rejected = verdict.codes != 0
            if left < len(alive):
                rejected &= alive
            positions = rejected.nonzero()[0]
            if not len(positions):
                continue
            codes = verdict.codes[positions]
            if verdict.may_fail:
                failed = self._failure(plugin, verdict, codes)
                if failed is not None:
                    return failed
            blocks.append(Block(each.name, positions, verdict, codes))
            alive = alive > rejected
            left -= len(positions)
        return blocks, alive

    def evaluate_one(self, filters: Sequence[Filter], state: CycleState, pod: Pod, node: NodeRow) -> Status:
        """Success, or the first filter's rejection of the node."""
        point, timed, skipped = "Filter", state.record_plugin_metrics, state.skip_filter
        for each in filters:
            if each.name in skipped:
                continue
            plugin = each.plugin
            if each.is_per_node or each.has_both:
                self._evaluations[each.labels] = self._evaluations.get(each.labels, 0) + 1
                started = time.perf_counter() if timed else 0.0
                try:
                    answer: object = plugin.filter(state, pod, node)
                except BaseException as exc:
                    answer = raised(plugin, point, exc)
                if timed:
                    self._calls.time(plugin, "Filter", answer, started)
                if answer is None:  # the usual case
                    continue
                status = self._calls.checked(plugin, "Filter", answer)
            else:
                found = self.evaluate((each,), state, pod, node.alone, _ONE)
                if isinstance(found, Status):
                    return found
                if not found[0]:
                    continue
                block = found[0][0]
                status = self._calls.status(plugin, "Filter", block.verdict.status, int(block.codes[0]))
            if not status.is_success:
                return status
        return SUCCESS

    def rejection(self, plugin: FilterPlugin, verdict: Verdict, code: int) -> Status:
        """The status of a verdict's code; an Error if the plugin cannot provide it."""
        return self._calls.status(plugin, "Filter", verdict.status, code)

    def _failure(self, plugin: FilterPlugin, verdict: Verdict, codes: NDArray[np.int64]) -> Status | None:
        """The first of these codes that is not a rejection, as an Error."""
        for code in distinct(codes):
            status = self.rejection(plugin, verdict, code)
            if status.is_success:
                status = invalid_answer(plugin, "Filter", status, f"a rejection for code {code}")
            if status.code == Code.ERROR:
                return status
        return None

    def _each_node(
        self, each: Filter, state: CycleState, pod: Pod, nodes: Nodes, alive: Mask
    ) -> Verdict | Status:
        """Call the per-node form, only for nodes that have not been rejected."""
        codes = np.zeros(len(nodes), np.int64)
        statuses: list[Status] = []
        plugin, timed = each.plugin, state.record_plugin_metrics
        for position in alive.nonzero()[0].tolist():
            node = nodes.node(position)
            status = self._calls.status(plugin, "Filter", plugin.filter, state, pod, node, timed=timed)
            if status.code == Code.ERROR:
                return status
            if not status.is_success:
                statuses.append(status)
                codes[position] = len(statuses)
        return Verdict.choosing(codes, *statuses)


def _is_over(verdict: Verdict, length: int) -> bool:
    codes = verdict.codes
    return isinstance(codes, np.ndarray) and codes.shape == (length,) and codes.dtype.kind in "iub"
