"""Checks the plugins' statements: a sample of cycles is evaluated a second time without plans.

In: a cycle that used answers given for equal pods. Out: nothing, if every plugin gives the same answers when
called. Otherwise each difference is logged and counted with plugin, pod, node and both answers, the plugin's
statement is ignored from then on, and the cycle is decided again without plans.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from kuberth.api.core import Pod
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import FitError
from kuberth.framework.equal_pods import KeptRejection
from kuberth.framework.runner import Runner
from kuberth.framework.running.filtering import FilterResult
from kuberth.framework.status import SUCCESS, Status
from kuberth.framework.verdict import distinct
from kuberth.informers.store import object_key
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.outcomes.rejection import Rejection

logger = logging.getLogger(__name__)

CHECK_EVERY: Final = 1000
"""Every n-th cycle is checked."""


class WrongAnswer(NamedTuple):
    """A reused answer, and the plugin's fresh answer."""

    plugin: str
    where: str
    """The extension point, with the node for answers about a node."""
    kept: str
    fresh: str


class PlanCheck:
    """Checks every n-th cycle."""

    def __init__(self, cluster: ClusterTable, *, metrics: SchedulerMetrics, every: int = CHECK_EVERY) -> None:
        """`every` 0 turns checks off."""
        self._cluster = cluster
        self._metrics = metrics
        self._every = every
        self._left = every

    def is_due(self) -> bool:
        """Whether this cycle is due for a check."""
        if not self._every:
            return False
        self._left -= 1
        if self._left:
            return False
        self._left = self._every
        return True

    def skips(self) -> bool:
        """Count this cycle; whether it is due for a check. If False, use `is_due` for the attempt."""
        if self._every:
            if self._left == 1:
                return False
            self._left -= 1
        return True

    def finds_difference(
        self, state: CycleState, pod: Pod, runner: Runner, *, start: int, number: int
    ) -> bool:
        """Whether fresh answers differ from reused ones; if so, the difference is reported.

        The search evaluated `number` nodes from place `start` on.
        """
        order = self._cluster.node_order()
        start %= order.count
        places = slice(start, start + min(max(number, 1), order.count))
        nodes = Nodes(self._cluster, order.twice[places], places)
        return self._report(self._wrong_answers(state, pod, runner, nodes), pod, runner)

    def compare(self, kept: KeptRejection, fresh: Rejection | None, pod: Pod, runner: Runner) -> bool:
        """Whether a fresh rejection differs from that of an equal pod although nothing has changed.

        `fresh` is the rejection when the plugins are called, or None if the pod is not rejected.
        """
        if fresh is not None and _is_the_same(kept, fresh):
            return False
        return self._report(_wrong_rejections(kept, fresh, runner), pod, runner)

    def _report(self, wrong: Iterable[WrongAnswer], pod: Pod, runner: Runner) -> bool:
        """Count and log wrong answers and ignore their plugins' statements from now on. False if none."""
        found = {each.plugin: each for each in wrong}
        for each in found.values():
            self._metrics.plan_differences.inc((each.plugin, runner.profile.scheduler_name))
            if runner.distrust(each.plugin):
                logger.error(
                    "plugin %r: its `inputs` are wrong. %s for pod %s: an equal pod got %s, but the plugin "
                    "now answers %s. The new answer is used. From now on the plugin is called for every "
                    "pod. Let `inputs` name every field of the pod that the plugin reads.",
                    *(each.plugin, each.where, object_key(pod)),
                    *(each.kept, each.fresh),
                )
        return bool(found)

    def _wrong_answers(
        self, state: CycleState, pod: Pod, runner: Runner, nodes: Nodes
    ) -> Iterator[WrongAnswer]:
        fresh = CycleState(state.pod_info)
        fresh.group, fresh.uses_plans = state.group, False
        prepared = runner.pre_filtering.run(fresh, pod, self._cluster.all_nodes())
        if not prepared.status.is_success or prepared.narrowed_by:
            called = () if state.equal_pods is None else state.equal_pods.pre_filter
            for name in prepared.narrowed_by or {prepared.status.plugin}:
                if name not in [plugin.name for plugin in called]:
                    yield WrongAnswer(name, "PreFilter", "Success or Skip", repr(prepared.status))
            return
        before, after = (runner.filtering.evaluate(each, pod, nodes) for each in (state, fresh))
        if isinstance(before, Status) or isinstance(after, Status):
            return  # a plugin failed, and failures are never reused
        order = {plugin.name: number for number, plugin in enumerate(runner.profile.filter)}
        for name, kept, given in zip(nodes.names(), _statuses(before), _statuses(after), strict=True):
            if kept != given:
                # The first plugin in order whose answer differs.
                rejecting = [each.plugin for each in (kept, given) if not each.is_success]
                plugin = min(rejecting, key=order.__getitem__)
                yield WrongAnswer(plugin, f"Filter of node {name}", repr(kept), repr(given))
        feasible = nodes.at_places(after.passing.nonzero()[0])
        if len(feasible) and runner.profile.score:
            yield from self._wrong_scores(state, fresh, pod, runner, feasible)

    def _wrong_scores(
        self, state: CycleState, fresh: CycleState, pod: Pod, runner: Runner, nodes: Nodes
    ) -> Iterator[WrongAnswer]:
        answers = []
        for each in (state, fresh):
            if not runner.scoring.run_pre_score(each, pod, nodes).is_success:
                return
            scores = runner.scoring.run(each, pod, nodes)
            if isinstance(scores, Status):
                return
            answers.append(scores.by_plugin)
        kept, given = answers
        nothing = np.zeros(len(nodes), np.int64)
        for name in kept.keys() | given.keys():
            before, after = kept.get(name, nothing), given.get(name, nothing)
            wrong = (before != after).nonzero()[0]
            if len(wrong):
                first = int(wrong[0])
                where = f"Score of node {nodes.name(first)}"
                yield WrongAnswer(name, where, str(before[first]), str(after[first]))


def _is_the_same(kept: KeptRejection, fresh: Rejection) -> bool:
    return (
        kept.nomination == fresh.nomination
        and kept.status == fresh.status
        and _answers(kept.status) == _answers(fresh.status)
    )


def _wrong_rejections(kept: KeptRejection, fresh: Rejection | None, runner: Runner) -> Iterator[WrongAnswer]:
    """The plugins' differing answers; PostFilter's only if the answers about nodes agree."""
    before, after = _answers(kept.status), {} if fresh is None else _answers(fresh.status)
    differ = [name for name in runner.profile.plugins if before.get(name) != after.get(name)]
    for name in differ:
        yield WrongAnswer(name, "Filter", repr(before.get(name, {})), repr(after.get(name, {})))
    if not differ and fresh is not None:
        for plugin in runner.profile.post_filter:
            yield WrongAnswer(plugin.name, "PostFilter", repr(kept.status), repr(fresh.status))


def _answers(status: Status) -> dict[str, dict[Status, int]]:
    """By plugin, the number of nodes that it rejected with each status."""
    found: dict[str, dict[Status, int]] = {}
    if isinstance(status.cause, FitError):
        for each, number in status.cause.diagnosis.counts():
            by_status = found.setdefault(each.plugin, {})
            by_status[each] = by_status.get(each, 0) + number
    return found


def _statuses(result: FilterResult) -> list[Status]:
    """The status of every node of the view."""
    statuses = [SUCCESS] * len(result.nodes)
    for block in result.rejections():
        of_code = {code: block.verdict.status(code).by(block.plugin) for code in distinct(block.codes)}
        for position, code in zip(block.positions.tolist(), block.codes.tolist(), strict=True):
            statuses[position] = of_code[code]
    return statuses
