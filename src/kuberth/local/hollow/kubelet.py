"""A pod's life on a hollow node: Running as soon as it is bound, over when its annotation says so.

In: pods bound to nodes that are played here. Out: their status (addresses, start time, container states,
conditions), and the end of those that are being deleted. Annotations on a pod:

    kuberth.dev/run-seconds: "30"    it ends so long after its start; without it, it runs for ever, or for a
                                     second if it is a Job's
    kuberth.dev/exit-code: "1"       how it ends: 0 (the default) is Succeeded, anything else Failed
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kuberth.clock import NANOSECONDS, Clock
from kuberth.local.apiserver.objects import Obj, key_of
from kuberth.local.hollow.conditions import is_true, set_condition
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.pod_states import is_finished, node_of, phase
from kuberth.local.hollow.shapes import address
from kuberth.local.hollow.working import Worker
from kuberth.text.timestamps import seconds_since, stamp

RUN_SECONDS: Final = "kuberth.dev/run-seconds"
EXIT_CODE: Final = "kuberth.dev/exit-code"

JOB_SECONDS: Final = 1.0
"""How long a Job's pod runs that does not say: work that does nothing is done soon."""

_POD_NET: Final = 10 << 24 | 128 << 16
"""10.128.0.0/9: eight million pods before addresses repeat."""
_POD_ADDRESSES: Final = (1 << 23) - 2
_PARALLEL: Final = 64
"""So many status writes share a commit."""


class HollowKubelet:
    """Plays the kubelets of all hollow nodes at once."""

    def __init__(
        self, informers: Informers, *, address_of: Callable[[str], str | None], clock: Clock
    ) -> None:
        """`address_of` gives the address of a node that is played here, None for any other."""
        self._address_of = address_of
        self._clock = clock
        self._pods = informers.of("pods")
        self._worker = Worker("kubelet", self._sync, parallel=_PARALLEL)
        self._started_ns: dict[str, int] = {}
        """When pods with an end were started, by UID: finer than the whole seconds of their startTime."""
        self._last_address = 0
        self._pods.add_index("node", lambda pod: (node_of(pod),) if node_of(pod) else ())
        self._pods.add_index("address", _addresses)
        self._pods.add_handler(self._note)

    async def run(self) -> None:
        await self._pods.synced.wait()
        await self._worker.run()

    def add_node(self, name: str) -> None:
        """A node is played from now on: look after the pods it has."""
        for pod in self._pods.by("node", name):
            self._worker.add(key_of(pod))

    def _note(self, old: Obj | None, new: Obj | None) -> None:
        if new is None:
            if old is not None:
                self._started_ns.pop(old["metadata"]["uid"], None)
        elif node_of(new) and (not is_finished(new) or "deletionTimestamp" in new["metadata"]):
            self._worker.add(key_of(new))

    async def _sync(self, key: str) -> float | None:
        pod = self._pods.get(key)
        if pod is None or (host := self._address_of(node_of(pod))) is None:
            return None
        if "deletionTimestamp" in pod["metadata"]:
            await self._end(pod)
            return None
        if is_finished(pod):
            return None
        if phase(pod) != "Running" or _gates_open(pod) != is_true(pod, "Ready"):
            pod = await self._write(pod, self._running(pod, host))
        left = self._seconds_left(pod)
        if left is not None and left <= 0:
            await self._write(pod, self._finished(pod, exit_code=_exit_code(pod)))
            return None
        return left

    async def _end(self, pod: Obj) -> None:
        """Containers that never were stop at once, whatever the grace period."""
        metadata = pod["metadata"]
        if metadata.get("finalizers"):
            # It will be seen for a while yet, so it has to look finished.
            if not is_finished(pod):
                pod = await self._write(pod, self._finished(pod, exit_code=137))
            if metadata.get("deletionGracePeriodSeconds") == 0:
                return
        await self._pods.delete(pod, grace_seconds=0)

    async def _write(self, pod: Obj, status: Obj) -> Obj:
        return await self._pods.update({**pod, "status": status}, subresource="status")

    def _seconds_left(self, pod: Obj) -> float | None:
        wanted = _run_seconds(pod)
        if wanted is None:
            return None
        started = self._started_ns.get(pod["metadata"]["uid"])
        if started is None:
            return wanted - seconds_since(pod.get("status", {}).get("startTime"), self._clock)
        return wanted - (self._clock.now_ns() - started) / NANOSECONDS

    def _running(self, pod: Obj, host: str) -> Obj:
        spec, status, now = pod["spec"], pod.get("status") or {}, stamp(self._clock)
        if _run_seconds(pod) is not None:
            self._started_ns.setdefault(pod["metadata"]["uid"], self._clock.now_ns())
        own = status.get("podIP") or (host if spec.get("hostNetwork") else self._next_address())
        ready = _gates_open(pod)
        conditions = [
            ("PodReadyToStartContainers", True, ""),
            ("Initialized", True, ""),
            ("Ready", ready, "" if ready else "ReadinessGatesNotReady"),
            ("ContainersReady", True, ""),
            ("PodScheduled", True, ""),
        ]
        running = {
            **status,
            "phase": "Running",
            "startTime": status.get("startTime", now),
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "podIP": own,
            "podIPs": [{"ip": own}],
            "conditions": _with(status.get("conditions") or [], conditions, now),
            "containerStatuses": [_running_container(pod, one, now) for one in spec.get("containers", ())],
        }
        if initial := spec.get("initContainers"):
            running["initContainerStatuses"] = [
                # One that restarts always is a sidecar, and runs beside the others.
                _running_container(pod, one, now)
                if one.get("restartPolicy") == "Always"
                # Done, it counts as ready; one that served has nothing left to be ready for.
                else _ended_container(pod, one, started=now, now=now, exit_code=0, ready=True)
                for one in initial
            ]
        running.pop("nominatedNodeName", None)
        return running

    def _finished(self, pod: Obj, *, exit_code: int) -> Obj:
        spec, status, now = pod["spec"], pod.get("status") or {}, stamp(self._clock)
        started = status.get("startTime", now)
        reason = "PodCompleted" if exit_code == 0 else "PodFailed"
        conditions = [
            ("PodReadyToStartContainers", False, ""),
            ("Initialized", True, reason if exit_code == 0 else ""),
            ("Ready", False, reason),
            ("ContainersReady", False, reason),
        ]
        return {
            **status,
            "phase": "Succeeded" if exit_code == 0 else "Failed",
            "startTime": started,
            "conditions": _with(status.get("conditions") or [], conditions, now),
            "containerStatuses": [
                _ended_container(pod, one, started=started, now=now, exit_code=exit_code)
                for one in spec.get("containers", ())
            ],
        }

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


def _with(conditions: list[Obj], wanted: Iterable[tuple[str, bool, str]], now: str) -> list[Obj]:
    for type_, status, reason in wanted:
        condition: Obj = {"type": type_, "status": "True" if status else "False", "lastProbeTime": None}
        if reason:
            condition["reason"] = reason
        conditions = set_condition(conditions, condition, now=now)
    return conditions


def _gates_open(pod: Obj) -> bool:
    gates = pod["spec"].get("readinessGates") or ()
    return all(is_true(pod, gate.get("conditionType", "")) for gate in gates)


def _running_container(pod: Obj, container: Obj, now: str) -> Obj:
    return {
        **_container(pod, container),
        "state": {"running": {"startedAt": now}},
        "ready": True,
        "started": True,
    }


def _ended_container(
    pod: Obj, container: Obj, *, started: str, now: str, exit_code: int, ready: bool = False
) -> Obj:
    described = _container(pod, container)
    ended = {
        "exitCode": exit_code,
        "reason": "Completed" if exit_code == 0 else "Error",
        "startedAt": started,
        "finishedAt": now,
        "containerID": described["containerID"],
    }
    return {**described, "state": {"terminated": ended}, "ready": ready, "started": False}


def _container(pod: Obj, container: Obj) -> Obj:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"hollow://{image}",
        "containerID": f"hollow://{pod['metadata']['uid']}/{container['name']}",
        "restartCount": 0,
        "lastState": {},
    }


def _run_seconds(pod: Obj) -> float | None:
    """How long the pod is to run; None: for ever."""
    annotated = _number(_annotation(pod, RUN_SECONDS))
    if annotated is not None:
        return annotated
    owners = pod["metadata"].get("ownerReferences") or ()
    return JOB_SECONDS if any(owner.get("kind") == "Job" for owner in owners) else None


def _annotation(pod: Obj, name: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(name, ""))


def _exit_code(pod: Obj) -> int:
    code = _number(_annotation(pod, EXIT_CODE))
    return 0 if code is None else int(code)


def _number(text: Any) -> float | None:
    """A number of an annotation; what is none is as good as no annotation."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 2**31 else None
