"""A pod's life on a hollow node: taken or refused, Running, restarted, stopped, over.

In: pods bound to nodes that are played here, and what their annotations ask (`annotations`). Out: their
status (addresses, start time, container states, conditions), events about what went wrong, and the end of
those that are being deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kuberth.clock import NANOSECONDS, Clock
from kuberth.local.apiserver.objects import Obj, key_of
from kuberth.local.hollow.admitting import Refusal, Rooms
from kuberth.local.hollow.annotations import course_of
from kuberth.local.hollow.conditions import is_true
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.pod_states import is_finished, node_of, phase
from kuberth.local.hollow.pod_statuses import (
    KILLED,
    STOPPED,
    backing_off,
    crashed,
    finished,
    judged,
    pod_id,
    refused,
    restarted,
    started,
)
from kuberth.local.hollow.recording import Recorder
from kuberth.local.hollow.shapes import address
from kuberth.local.hollow.timestamps import seconds_since, stamp
from kuberth.local.hollow.working import Worker
from kuberth.text.timestamps import parse_timestamp

_FIRST_BACKOFF_SECONDS: Final = 10.0
_LAST_BACKOFF_SECONDS: Final = 300.0
_POD_NET: Final = 10 << 24 | 128 << 16
"""10.128.0.0/9: eight million pods before addresses repeat."""
_POD_ADDRESSES: Final = (1 << 23) - 2
_PARALLEL: Final = 64
"""So many status writes share a commit."""


class PlayedNode(NamedTuple):
    """A node whose kubelet is played here, and works."""

    obj: Obj
    address: str
    ready: bool


@dataclass(slots=True)
class _Life:
    """What a status, in whole seconds, is too coarse for: when the containers started and ended."""

    started_ns: int
    ended_ns: int | None = None
    """None: they run."""
    crashes: int = 0
    """How often they ended since they last held out."""

    @property
    def backoff_seconds(self) -> float:
        """How long to wait after the latest crash: nothing after the first one, then longer each time."""
        if self.crashes < 2:
            return 0.0
        return min(_FIRST_BACKOFF_SECONDS * 2.0 ** (self.crashes - 2), _LAST_BACKOFF_SECONDS)

    def crash(self, now_ns: int) -> None:
        if now_ns - self.started_ns > 2 * _LAST_BACKOFF_SECONDS * NANOSECONDS:
            self.crashes = 0
        self.crashes += 1
        self.ended_ns = now_ns

    def restart(self, now_ns: int) -> None:
        self.started_ns, self.ended_ns = now_ns, None


class HollowKubelet:
    """Plays the kubelets of all hollow nodes at once."""

    def __init__(
        self, informers: Informers, *, played: Callable[[str], PlayedNode | None], clock: Clock
    ) -> None:
        """`played` gives a node by name if its kubelet is played here and works, None otherwise."""
        self._played = played
        self._clock = clock
        self._core = informers.core
        self._pods = informers.of("pods")
        self._recorder = Recorder(informers, clock=clock, component="kubelet")
        self._worker = Worker("kubelet", self._sync, parallel=_PARALLEL)
        self._rooms = Rooms()
        self._lives: dict[str, _Life] = {}
        """By UID, of pods whose annotations make time matter."""
        self._asked: dict[str, int] = {}
        """When pods were first asked to go, by UID."""
        self._last_address = 0
        self._pods.add_index("node", lambda pod: (node_of(pod),) if node_of(pod) else ())
        self._pods.add_index("address", _addresses)
        self._pods.add_handler(self._note)

    async def run(self) -> None:
        await self._pods.synced.wait()
        await self._worker.run()

    def look_at(self, node: str) -> None:
        """A node is played from now on, or another way than before: look after the pods it has."""
        for pod in self._pods.by("node", node):
            self._worker.add(key_of(pod))

    def _note(self, old: Obj | None, new: Obj | None) -> None:
        uid = (new or old or {})["metadata"]["uid"]
        if new is None or is_finished(new):
            self._rooms.release(uid)
            self._lives.pop(uid, None)
        elif node_of(new) and "startTime" in new.get("status", {}):
            # Also those of an earlier run, before any new one asks for room.
            self._rooms.take(new)
        if new is None:
            self._asked.pop(uid, None)
        elif node_of(new) and (not is_finished(new) or "deletionTimestamp" in new["metadata"]):
            self._worker.add(key_of(new))

    async def _sync(self, key: str) -> float | None:
        pod = self._pods.get(key)
        if pod is None or (node := self._played(node_of(pod))) is None:
            return None
        if "deletionTimestamp" in pod["metadata"]:
            return await self._stop(pod)
        if is_finished(pod):
            return None
        if not pod.get("status", {}).get("startTime") and (refusal := await self._refusal(pod, node)):
            await self._write(pod, refused(pod, **refusal._asdict(), now=stamp(self._clock)))
            self._tell(pod, refusal.reason, refusal.message)
            return None
        status, seconds = self._next(pod, node)
        if status != pod.get("status"):
            await self._write(pod, status)
        return seconds

    async def _refusal(self, pod: Obj, node: PlayedNode) -> Refusal | None:
        if self._rooms.admit(pod, node.obj) is None:
            return None
        # What is known here may be late: ask the server who is there before a pod is turned away for good.
        name = node_of(pod)
        there = await self._core.list("pods", field_selector=f"spec.nodeName={name}")
        self._rooms.keep_only(
            name, {one["metadata"]["uid"] for one in there["items"] if not is_finished(one)}
        )
        current = await self._core.get("nodes", name)
        return self._rooms.admit(pod, current)

    def _next(self, pod: Obj, node: PlayedNode) -> tuple[Obj, float | None]:
        """A pod's status now, and after how many seconds to look again."""
        course, now, now_ns = course_of(pod), stamp(self._clock), self._clock.now_ns()
        status: Obj = pod.get("status") or {}
        waits = []
        if phase(pod) != "Running" or "startTime" not in status:
            own = status.get("podIP")
            own = own or (node.address if pod["spec"].get("hostNetwork") else self._next_address())
            status = started(pod, host=node.address, own=own, now=now)
            life = _Life(now_ns)
        else:
            life = self._lives.get(pod["metadata"]["uid"]) or self._remembered(status)
        deadline = pod["spec"].get("activeDeadlineSeconds")
        if deadline is not None:
            left = deadline - seconds_since(status["startTime"], self._clock)
            if left <= 0:
                why = "Pod was active on the node longer than the specified deadline"
                return self._over(pod, status, KILLED, reason="DeadlineExceeded", message=why), None
            waits.append(left)
        if life.ended_ns is None and course.end is not None:
            seconds, exit_code = course.end
            left = seconds - (now_ns - life.started_ns) / NANOSECONDS
            if left <= 0:
                if not _restarts(pod, exit_code):
                    return self._over(pod, status, exit_code), None
                status = crashed(status, exit_code=exit_code, now=now)
                life.crash(now_ns)
                self._tell_crash(pod, by_probe=course.dies_of_its_probe, backoff=bool(life.backoff_seconds))
                if life.backoff_seconds:
                    status = backing_off(pod, status, seconds=life.backoff_seconds)
            else:
                waits.append(left)
        if life.ended_ns is not None:
            left = life.backoff_seconds - (now_ns - life.ended_ns) / NANOSECONDS
            if left > 0:
                waits.append(left)
            else:
                status = restarted(status, now=now)
                life.restart(now_ns)
                waits.append(0.0)
        unready = course.ready_after_seconds - (now_ns - life.started_ns) / NANOSECONDS
        runs = life.ended_ns is None
        if runs and unready > 0:
            waits.append(unready)
        if waits:
            self._lives[pod["metadata"]["uid"]] = life
        ready = runs and unready <= 0 and course.ready and node.ready
        status = judged(pod, status, ready=ready, gates_open=_gates_open(pod), now=now)
        return status, min(waits, default=None)

    def _remembered(self, status: Obj) -> _Life:
        """A life as an earlier run wrote it down."""
        container: Obj = next(iter(status.get("containerStatuses") or ()), {})
        now_ns, restarts = self._clock.now_ns(), int(container.get("restartCount", 0))
        running = container.get("state", {}).get("running")
        if running is not None:
            return _Life(parse_timestamp(running.get("startedAt")) or now_ns, crashes=restarts)
        last = container.get("lastState", {}).get("terminated") or {}
        started_ns = parse_timestamp(last.get("startedAt")) or now_ns
        ended_ns = parse_timestamp(last.get("finishedAt")) or now_ns
        return _Life(started_ns, ended_ns, crashes=restarts + 1)

    def _over(self, pod: Obj, status: Obj, exit_code: int, *, reason: str = "", message: str = "") -> Obj:
        now = stamp(self._clock)
        return finished(pod, status, exit_code=exit_code, now=now, reason=reason, message=message)

    async def _stop(self, pod: Obj) -> float | None:
        """Lead a pod that is to go to its end; when to look again if its containers take their time."""
        metadata, exit_code = pod["metadata"], STOPPED
        if not is_finished(pod):
            stop, kill = self._seconds_to_end(pod)
            if min(stop, kill) > 0:
                return min(stop, kill)
            exit_code = STOPPED if stop <= kill else KILLED
        if metadata.get("finalizers"):
            # It will be seen for a while yet, so it has to look finished.
            if not is_finished(pod):
                pod = await self._write(pod, self._over(pod, pod.get("status") or {}, exit_code))
            if metadata.get("deletionGracePeriodSeconds") == 0:
                return None
        await self._pods.delete(pod, grace_seconds=0)
        return None

    def _seconds_to_end(self, pod: Obj) -> tuple[float, float]:
        """When its containers stop by themselves, and when they are killed."""
        if "startTime" not in pod.get("status", {}):
            return 0.0, 0.0
        metadata, now_ns = pod["metadata"], self._clock.now_ns()
        due_ns = parse_timestamp(metadata["deletionTimestamp"]) or now_ns
        asked_ns = due_ns - (metadata.get("deletionGracePeriodSeconds") or 0) * NANOSECONDS
        # Timestamps are whole seconds: what was asked in this one was asked just now, and what is due in
        # one is due at its end.
        just_now = now_ns - asked_ns < NANOSECONDS
        first_ns = self._asked.setdefault(metadata["uid"], now_ns if just_now else asked_ns)
        stop = course_of(pod).stop_seconds - (now_ns - first_ns) / NANOSECONDS
        return stop, (due_ns - now_ns) / NANOSECONDS + 1.0

    async def _write(self, pod: Obj, status: Obj) -> Obj:
        return await self._pods.update({**pod, "status": status}, subresource="status")

    def _tell_crash(self, pod: Obj, *, by_probe: bool, backoff: bool) -> None:
        for container in pod["spec"].get("containers", ()):
            name = container["name"]
            if by_probe:
                self._tell(pod, "Unhealthy", "Liveness probe failed: the annotation says so")
                message = f"Container {name} failed liveness probe, will be restarted"
                self._tell(pod, "Killing", message, type_="Normal")
            if backoff:
                message = f"Back-off restarting failed container {name} in pod {pod_id(pod)}"
                self._tell(pod, "BackOff", message)

    def _tell(self, pod: Obj, reason: str, message: str, *, type_: str = "Warning") -> None:
        self._recorder.record(pod, api_version="v1", kind="Pod", reason=reason, message=message, type_=type_)

    def _next_address(self) -> str:
        while True:
            candidate = address(_POD_NET, self._last_address % _POD_ADDRESSES)
            self._last_address += 1
            # After a restart, pods from before hold the first ones.
            if not self._pods.by("address", candidate):
                return candidate


def _addresses(pod: Obj) -> Iterable[str]:
    own = pod.get("status", {}).get("podIP")
    return (own,) if own else ()


def _gates_open(pod: Obj) -> bool:
    gates = pod["spec"].get("readinessGates") or ()
    return all(is_true(pod, gate["conditionType"]) for gate in gates)


def _restarts(pod: Obj, exit_code: int) -> bool:
    policy = pod["spec"].get("restartPolicy", "Always")
    return bool(policy == "Always" or (policy == "OnFailure" and exit_code != 0))
