"""Pods that wait on Permit, which plugins list, approve and reject.

In: pods whose Permit returned Wait, with a timeout per plugin. Out: one final status per pod, for which its
binding cycle waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import timedelta

from kuberth.api.core import Pod
from kuberth.framework.status import SUCCESS, Code, Status
from kuberth.text.durations import format_duration


class WaitingPod:
    """A pod that waits on Permit until every plugin has allowed it, or one has rejected it."""

    def __init__(self, pod: Pod, timeouts_seconds: Mapping[str, float], *, attempts: int = 1) -> None:
        loop = asyncio.get_running_loop()
        self.pod = pod
        """The waiting pod."""
        self.attempts = attempts
        """The number of attempts, this one included."""
        self.timeouts_seconds = dict(timeouts_seconds)
        """By plugin: the maximum time to hold the pod."""
        self._outcome: asyncio.Future[Status] = loop.create_future()
        self._timers = {
            plugin: loop.call_later(timeout, self._time_out, plugin, timeout)
            for plugin, timeout in timeouts_seconds.items()
        }

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        """The plugins that have not allowed the pod yet."""
        return tuple(self._timers)

    def seconds_left(self) -> dict[str, float]:
        """By plugin that has not allowed the pod yet: when the pod is rejected."""
        now = asyncio.get_running_loop().time()
        return {plugin: timer.when() - now for plugin, timer in self._timers.items()}

    @property
    def is_allowed(self) -> bool:
        """Whether every plugin has allowed the pod."""
        return self._outcome.done() and self._outcome.result().is_success

    def allow(self, plugin: str) -> None:
        """Approve for `plugin`; the pod continues when all plugins have approved."""
        if (timer := self._timers.pop(plugin, None)) is not None:
            timer.cancel()
        if not self._timers:
            self._finish(SUCCESS)

    def reject(self, plugin: str, reason: str) -> bool:
        """Reject the pod, so that it returns to the queue. False if it was already decided."""
        return self._finish(Status(Code.UNSCHEDULABLE, reason, plugin=plugin))

    def preempt(self, plugin: str, reason: str) -> bool:
        """Reject the pod in favour of another one; it gets the error backoff."""
        return self._finish(Status(Code.ERROR, reason, plugin=plugin))

    async def wait(self) -> Status:
        return await asyncio.shield(self._outcome)

    def _time_out(self, plugin: str, timeout_seconds: float) -> None:
        waited = format_duration(timedelta(seconds=timeout_seconds))
        self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    def _finish(self, status: Status) -> bool:
        for timer in self._timers.values():
            timer.cancel()
        if self._outcome.done():
            return False
        self._outcome.set_result(status)
        return True


class WaitingPods:
    """All waiting pods of all profiles, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(self, pod: Pod, timeouts_seconds: Mapping[str, float], *, attempts: int = 1) -> WaitingPod:
        waiting = WaitingPod(pod, timeouts_seconds, attempts=attempts)
        self._pods[pod.metadata.uid] = waiting
        return waiting

    def get(self, uid: str) -> WaitingPod | None:
        """The waiting pod with this UID; None if it does not wait."""
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def reject(self, uid: str, reason: str, *, plugin: str = "") -> bool:
        """Reject the pod with this UID. False if it does not wait."""
        waiting = self._pods.get(uid)
        return waiting is not None and waiting.reject(plugin, reason)

    def __iter__(self) -> Iterator[WaitingPod]:
        """All waiting pods."""
        return iter(tuple(self._pods.values()))

    def __len__(self) -> int:
        """The number of waiting pods."""
        return len(self._pods)
