"""The phase that finds nodes: PreFilter, Filter (`judging`, `keeping`, `promising`), PostFilter.

In: a cycle state, a pod, a view of the cluster table. Out: which nodes pass, why the others do not, and what
making room achieved.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.cluster.nodes import Nodes
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.extension_points import Plugin, PostFilterResult, PreFilterResult
from kuberth.framework.plans import AnswerRecorder
from kuberth.framework.running.asking import nonsense
from kuberth.framework.running.promising import Promising
from kuberth.framework.status import SKIP, SKIP_FOR_GOOD, SUCCESS, Code, Status


class PreFilterOutcome(NamedTuple):
    """What PreFilter decided: a status, the only nodes left (None: all), and who narrowed them."""

    status: Status
    node_names: frozenset[str] | None
    narrowed_by: frozenset[str]


_ALL_NODES: Final = PreFilterOutcome(SUCCESS, None, frozenset())


class Filtering(Promising):
    """Asks PreFilter, Filter and PostFilter plugins."""

    def run_pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterOutcome:
        """Ask every PreFilter plugin; a plugin that skips is not asked at Filter either."""
        started = time.perf_counter()
        self._take_plan(state)
        outcome = self._pre_filter(state, pod, nodes)
        self._asked.observe("PreFilter", outcome.status, started)
        return outcome

    def _take_plan(self, state: CycleState) -> None:
        """From here on what equal pods met is known, unless the table shows what is not so."""
        if self._plans is not None and state.pod_info is not None and not self._cluster.is_supposing:
            state.plan = self._plans.plan_for(state.pod_info)
            if state.plan is not None:
                state.memory = state.plan.memory

    def _pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterOutcome:
        plan, plugins = state.plan, self.profile.pre_filter
        kept, recorder = None, None
        if plan is not None:
            kept = plan.pre_filter
            if kept is None:
                recorder = AnswerRecorder(state)
            else:
                state.write_all(kept.written)
                if kept.is_plain:
                    plugins = kept.to_ask
        skipped: list[str] = []
        narrowed_by: set[str] = set()
        node_names: frozenset[str] | None = None
        outcome = SUCCESS
        for plugin in plugins:
            if kept is not None and plugin.name in kept.answers:
                answer = kept.answers[plugin.name]
            else:
                self._asked.evaluated(plugin, "PreFilter")
                answer = self._asked.ask(
                    plugin,
                    "PreFilter",
                    plugin.pre_filter,
                    state,
                    pod,
                    nodes,
                    timed=state.record_plugin_metrics,
                )
                if recorder is not None:
                    recorder.note(plugin, answer, plugin.pre_filter_depends_on)
            if answer is SKIP or answer is SKIP_FOR_GOOD:  # as nearly always
                skipped.append(plugin.name)
                continue
            if isinstance(answer, PreFilterResult) and _is_narrowing(answer.node_names):
                if answer.node_names is None:
                    continue
                narrowed_by.add(plugin.name)
                left = frozenset(answer.node_names)
                node_names = left if node_names is None else node_names & left
                if not node_names:
                    outcome = Status.unresolvable(_nothing_left(narrowed_by))
                    state.missed_pre_filter = self._after(plugin)
                    break
                continue
            status = self._asked.checked(plugin, "PreFilter", answer)
            if status.code == Code.SKIP:
                skipped.append(plugin.name)
            elif status.code == Code.UNSCHEDULABLE:
                # Others may find that no preemption can help, which is the stronger statement.
                outcome = status
            elif not status.is_success:
                outcome = status
                node_names, narrowed_by = None, set()
                state.missed_pre_filter = self._after(plugin)
                break
        if kept is not None and kept.is_plain:
            state.skip_filter = kept.skipped_with(skipped)
        else:
            state.skip_filter = frozenset(skipped)
        if plan is not None and recorder is not None and outcome is SUCCESS:
            plan.pre_filter = recorder.kept()
        if outcome is SUCCESS and node_names is None:
            return _ALL_NODES
        return PreFilterOutcome(outcome, node_names, frozenset(narrowed_by))

    def _after(self, plugin: Plugin) -> frozenset[str]:
        """Who comes after it at PreFilter."""
        names = [each.name for each in self.profile.pre_filter]
        return frozenset(names[names.index(plugin.name) + 1 :])

    def run_post_filter(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Ask PostFilter plugins until one makes the pod schedulable or says that nothing can."""
        started = time.perf_counter()
        tries = _PostFilterTries()
        for plugin in self.profile.post_filter:
            answer = self._asked.ask(
                plugin,
                "PostFilter",
                plugin.post_filter,
                state,
                pod,
                diagnosis,
                timed=state.record_plugin_metrics,
            )
            if tries.end_with(plugin, *self._post_filter_answer(plugin, answer)):
                break
        self._asked.observe("PostFilter", tries.status, started)
        return tries.result, tries.status

    async def run_post_filter_waiting(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """The same in a cycle that may wait."""
        started = time.perf_counter()
        tries = _PostFilterTries()
        for plugin in self.profile.post_filter:
            answer = await self._asked.ask_waiting(
                plugin,
                "PostFilter",
                plugin.post_filter_waiting,
                state,
                pod,
                diagnosis,
                timed=state.record_plugin_metrics,
            )
            if tries.end_with(plugin, *self._post_filter_answer(plugin, answer)):
                break
        self._asked.observe("PostFilter", tries.status, started)
        return tries.result, tries.status

    def _post_filter_answer(self, plugin: Plugin, answer: object) -> tuple[PostFilterResult | None, Status]:
        if isinstance(answer, Status):
            return None, self._asked.checked(plugin, "PostFilter", answer)
        if isinstance(answer, tuple) and len(answer) == 2:
            given, status = answer
            if given is None or isinstance(given, PostFilterResult):
                return given, self._asked.checked(plugin, "PostFilter", status)
        return None, nonsense(plugin, "PostFilter", answer, "(PostFilterResult or None, Status or None)")


class _PostFilterTries:
    """What PostFilter plugins achieved so far, one after the other."""

    def __init__(self) -> None:
        self.result: PostFilterResult | None = None
        self._reasons: list[str] = []
        self._rejector = ""
        self._end: Status | None = None

    @property
    def status(self) -> Status:
        return self._end or Status(Code.UNSCHEDULABLE, *self._reasons, plugin=self._rejector)

    def end_with(self, plugin: Plugin, given: PostFilterResult | None, status: Status) -> bool:
        """Take an answer in; True: no other plugin is to be asked."""
        if status.is_success or status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            self.result, self._end = given, status
        elif status.code == Code.ERROR:
            self.result, self._end = None, status
        else:
            self.result = given if given is not None else self.result
            self._reasons.extend(status.reasons)
            self._rejector = self._rejector or plugin.name
        return self._end is not None


def _is_narrowing(node_names: object) -> bool:
    if node_names is None:
        return True
    return isinstance(node_names, Collection) and not isinstance(node_names, str | bytes)


def _nothing_left(plugins: Iterable[str]) -> str:
    names: Sequence[str] = sorted(plugins)
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"
