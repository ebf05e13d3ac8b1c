"""The binding phases: PreBind with its pre-flight, Bind, PostBind. The only phases that await."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import NamedTuple

from kuberth.api.core import Pod
from kuberth.errors import ExtenderError
from kuberth.extenders import Extenders
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import BindPlugin
from kuberth.framework.profile import Profile
from kuberth.framework.running.calls import PRE_FLIGHT, Calls, allowed_codes, invalid_answer, raised
from kuberth.framework.status import SKIP, SUCCESS, Code, Status
from kuberth.observe.metrics import SchedulerMetrics

logger = logging.getLogger(__name__)


class BindUnderWay(NamedTuple):
    """A binding without a task, which ends with the future."""

    plugin: BindPlugin
    future: asyncio.Future[Status] | asyncio.Future[None]
    started: float


class BindingPoints:
    """Calls PreBind, Bind and PostBind plugins."""

    def __init__(
        self, profile: Profile, *, metrics: SchedulerMetrics, calls: Calls, extenders: Extenders
    ) -> None:
        self._pre_bind = profile.pre_bind
        self._bind = profile.bind
        self._post_bind = profile.post_bind
        self._metrics = metrics
        self._calls = calls
        self._extenders = extenders
        first = next(iter(profile.bind), None)
        self._binds_nowait = first if first is not None and _can_bind_nowait(first) else None
        """The first Bind plugin, if it can bind without a task."""

    def run_pre_bind_pre_flights(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Skip: no PreBind plugin has anything to do. Success: at least one has."""
        started = time.perf_counter()
        unconcerned = frozenset[str]() if state.equal_pods is None else state.equal_pods.unconcerned
        skipped: set[str] = set()
        outcome = SKIP
        for plugin in self._pre_bind:
            if plugin.name in unconcerned:
                skipped.add(plugin.name)
                continue
            answer = self._calls.call(
                plugin,
                PRE_FLIGHT,
                plugin.pre_bind_pre_flight,
                state,
                pod,
                node_name,
                timed=state.record_plugin_metrics,
            )
            if answer is SKIP:  # the usual case
                skipped.add(plugin.name)
                continue
            status = self._calls.checked(plugin, PRE_FLIGHT, answer)
            if status.code == Code.SKIP:
                skipped.add(plugin.name)
            elif status.is_success:
                outcome = SUCCESS
            else:
                outcome = status
                break
        state.skip_pre_bind = frozenset(skipped)
        self._calls.observe(PRE_FLIGHT, outcome, started)
        return outcome

    async def run_pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        started = time.perf_counter()
        outcome = SUCCESS
        for plugin in self._pre_bind:
            if plugin.name in state.skip_pre_bind:
                continue
            outcome = await self._calls.async_status(
                plugin, "PreBind", plugin.pre_bind, state, pod, node_name
            )
            if not outcome.is_success:
                break
        self._calls.observe("PreBind", outcome, started)
        return outcome

    def begin_bind(self, state: CycleState, pod: Pod, node_name: str) -> BindUnderWay | None:
        """Bind without a task, if every PreBind plugin skips and the first Bind plugin can do it.

        None: await `run_pre_bind` and `run_bind` instead. The caller passes the future of a started binding
        to `end_bind`.
        """
        plugin = self._binds_nowait
        if self._extenders and self._extenders.binding(pod):
            return None
        if plugin is None or len(state.skip_pre_bind) < len(self._pre_bind):
            return None
        started = time.perf_counter()
        try:
            future = plugin.bind_nowait(state, pod, node_name)
        except BaseException as exc:
            raised(plugin, "Bind", exc)  # logged; then `bind` is called
            return None
        if future is None:
            return None
        self._calls.observe("PreBind", SUCCESS, started)
        return BindUnderWay(plugin, future, started)

    def end_bind(self, under_way: BindUnderWay, state: CycleState) -> Status:
        """The result of a binding's future, in the form of `run_bind`."""
        plugin, future, started = under_way
        answer: object
        try:
            answer = future.result()
        except BaseException as exc:
            answer = raised(plugin, "Bind", exc)
        if isinstance(answer, Status) and answer.code == Code.SKIP:
            status = invalid_answer(
                plugin, "Bind", answer.code.label, allowed_codes("Bind", without=Code.SKIP)
            )
        else:
            status = self._calls.checked(plugin, "Bind", answer)
        if state.record_plugin_metrics:
            self._metrics.plugin_execution_duration.observe(
                (plugin.name, "Bind", status.code.label), time.perf_counter() - started
            )
        self._calls.observe("Bind", status, started)
        return status

    async def run_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Call Bind plugins in order until one does not return Skip.

        If all skip, the result is Skip: the pod was not bound. An extender that binds goes before all
        plugins.
        """
        for extender in self._extenders.binding(pod) if self._extenders else ():
            try:
                await extender.bind(pod, node_name)
            except ExtenderError as exc:
                if not extender.config.ignorable:
                    return Status.error(exc)
                logger.warning(
                    "Skipping extender in bind as it returned error and has ignorable flag set: %s", exc
                )
            else:
                return SUCCESS
        started = time.perf_counter()
        outcome = SKIP
        for plugin in self._bind:
            outcome = await self._calls.async_status(plugin, "Bind", plugin.bind, state, pod, node_name)
            if outcome.code != Code.SKIP:
                break
        self._calls.observe("Bind", outcome, started)
        return outcome

    def run_post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        started = time.perf_counter()
        for plugin in self._post_bind:
            self._calls.notify(plugin, "PostBind", plugin.post_bind, state, pod, node_name)
        self._calls.observe("PostBind", SUCCESS, started)


def _can_bind_nowait(plugin: BindPlugin) -> bool:
    """Whether the same class implements `bind_nowait` and `bind`.

    If a subclass overrides only `bind`, every binding has to go through it.
    """
    if "bind" in vars(plugin):
        return False
    for owner in type(plugin).__mro__:
        if "bind_nowait" in vars(owner):
            return owner is not BindPlugin
        if "bind" in vars(owner):
            return False
    return False
