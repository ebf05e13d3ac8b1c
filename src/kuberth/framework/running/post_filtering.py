"""The PostFilter phase, after no node has passed.

In: a cycle state, a pod, the diagnosis of all nodes. Out: the plugins' result, such as a nominated node, and
their messages.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from kuberth.api.core import Pod
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.extension_points import PostFilterPlugin, PostFilterResult
from kuberth.framework.running.calls import ANSWERS, Calls, invalid_answer
from kuberth.framework.status import Code, Status


class PostFiltering:
    """Calls PostFilter plugins until one makes the pod schedulable or reports that nothing can."""

    def __init__(self, plugins: Sequence[PostFilterPlugin], *, calls: Calls) -> None:
        self._plugins = plugins
        self._calls = calls

    def run(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """The result and the messages of the plugins."""
        tries, timed = _Tries(self._calls), state.record_plugin_metrics
        for plugin in self._plugins:
            answer = self._calls.call(
                plugin, "PostFilter", plugin.post_filter, state, pod, diagnosis, timed=timed
            )
            if tries.end_with(plugin, answer):
                break
        return tries.finish()

    async def run_waiting(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Like `run`, in a cycle that may wait."""
        tries, timed = _Tries(self._calls), state.record_plugin_metrics
        for plugin in self._plugins:
            answer = await self._calls.call_async(
                plugin, "PostFilter", plugin.post_filter_waiting, state, pod, diagnosis, timed=timed
            )
            if tries.end_with(plugin, answer):
                break
        return tries.finish()


class _Tries:
    """Collects the results of PostFilter plugins, one after the other."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._started = time.perf_counter()
        self._result: PostFilterResult | None = None
        self._reasons: list[str] = []
        self._rejector = ""
        self._end: Status | None = None

    def finish(self) -> tuple[PostFilterResult | None, Status]:
        """The result of the phase; records its duration."""
        status = self._end or Status(Code.UNSCHEDULABLE, *self._reasons, plugin=self._rejector)
        self._calls.observe("PostFilter", status, self._started)
        return self._result, status

    def end_with(self, plugin: PostFilterPlugin, answer: object) -> bool:
        """Add an answer; True if no other plugin has to be called."""
        given, status = self._checked(plugin, answer)
        if status.is_success or status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            self._result, self._end = given, status
        elif status.code == Code.ERROR:
            self._result, self._end = None, status
        else:
            self._result = self._result if given is None else given
            self._reasons.extend(status.reasons)
            self._rejector = self._rejector or plugin.name
        return self._end is not None

    def _checked(self, plugin: PostFilterPlugin, answer: object) -> tuple[PostFilterResult | None, Status]:
        if isinstance(answer, Status):
            return None, self._calls.checked(plugin, "PostFilter", answer)
        if isinstance(answer, tuple) and len(answer) == 2:
            given, status = answer
            if given is None or isinstance(given, PostFilterResult):
                return given, self._calls.checked(plugin, "PostFilter", status)
        return None, invalid_answer(plugin, "PostFilter", answer, ANSWERS["PostFilter"])
