"""The path `/explain?pod=NAME&namespace=NS` of a running scheduler, with its own queue, rules and cluster.

In: a request. Out: the JSON of an explanation. A separate thread evaluates the pod on a copy of the cluster,
one question at a time. The copy is created for the first question, updated for each one, and dropped after a
time without questions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kuberth.api.core import Pod
from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import NANOSECONDS, Clock, SystemClock
from kuberth.errors import KuberthError
from kuberth.explaining.cluster_copy import ClusterCopy
from kuberth.explaining.explanation import explain, to_tree
from kuberth.explaining.question import PermitHold, Question, Waiting
from kuberth.explaining.targets import ExplainTarget, unknown_pod
from kuberth.https.messages import JSON, Request, Response
from kuberth.informers.store import object_key
from kuberth.serving.messages import Handler, failure, failure_tree

PATH: Final = "/explain"
KEPT_SECONDS: Final = 600.0
"""After this time without a question, the copy of the cluster is dropped."""


def explain_page(scheduler: Scheduler, *, clock: Clock | None = None) -> Handler:
    """The page of one scheduler. `clock`: the scheduler's."""
    copy, now = _RunningCopy(scheduler), SystemClock() if clock is None else clock

    def page(request: Request) -> Response:
        name, namespace = request.query.text("pod"), request.query.text("namespace") or "default"
        if not name:
            problem = "the parameter pod is missing; use /explain?pod=NAME&namespace=NAMESPACE"
            return failure(400, "BadRequest", problem)
        pods = scheduler.stores.of(Pod)
        pod = pods.get(name, namespace=namespace)
        if pod is None:
            target = ExplainTarget("Pod", name)

            def unknown() -> dict[str, Any]:
                """In the worker's thread: it compares the name with those of all pods."""
                return failure_tree(404, "NotFound", str(unknown_pod(pods.snapshot(), target, namespace)))

            return Response(copy.body(unknown), status=404, content_type=JSON)
        question = Question(
            pod,
            (),  # the worker adds the objects
            config=scheduler.config,
            registry=scheduler.registry,
            feature_gates=scheduler.feature_gates,
            waiting=_waiting(scheduler, pod, now),
        )
        return Response(copy.body(partial(copy.explained, question)), content_type=JSON)

    return page


class _RunningCopy:
    """A copy of a running scheduler's cluster, and the thread that works on it.

    There is one thread, so that the scheduler shares its processor with one question at a time; the others
    wait. If a client disconnects, its waiting question is dropped, but one that has begun is finished.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="explain")
        self._cluster: ClusterCopy | None = None
        self._dropping: asyncio.TimerHandle | None = None

    async def body(self, answer: Callable[[], Any]) -> AsyncIterator[bytes]:
        """The JSON of the result of `answer`, which runs in the worker's thread."""

        def encoded() -> bytes:
            return json.dumps(answer(), ensure_ascii=False, separators=(",", ":")).encode()

        loop = asyncio.get_running_loop()
        if self._dropping is not None:
            self._dropping.cancel()
        self._dropping = loop.call_later(KEPT_SECONDS, self._worker.submit, self._drop)
        yield await loop.run_in_executor(self._worker, encoded)

    # In the worker's thread

    def explained(self, question: Question) -> Any:
        scheduler = self._scheduler
        if self._cluster is None or self._cluster.config is not question.config:
            self._cluster = ClusterCopy(
                question.configuration, registry=question.registry, feature_gates=question.feature_gates
            )
        # Assumed pods first: a pod that is confirmed meanwhile has its node in the store.
        assumed = {info.uid: info.pod for info in scheduler.cluster.assumed_pods()}
        stores = scheduler.stores
        objects = [obj for kind in stores.kinds() if kind is not Pod for obj in stores.of(kind).snapshot()]
        pods = stores.of(Pod).snapshot()
        objects += [assumed.get(pod.metadata.uid, pod) for pod in pods] if assumed else pods
        try:
            return to_tree(explain(replace(question, objects=objects), self._cluster))
        except KuberthError as error:
            self._drop()
            # The response's status has been sent, so only the kind of the body can mark an error.
            return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": str(error)}
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        self._cluster = None


def _waiting(scheduler: Scheduler, pod: Pod, clock: Clock) -> Waiting | None:
    key, queue = object_key(pod), scheduler.queue
    held = scheduler.waiting_pods.get(pod.metadata.uid)
    if held is not None and (left := held.seconds_left()):
        now = clock.now_ns() / NANOSECONDS
        limits = held.timeouts_seconds
        holds = [
            PermitHold(plugin, now + left[plugin] - limits[plugin], now + left[plugin]) for plugin in left
        ]
        return Waiting(
            queue="permit",
            since=min(hold.since for hold in holds),
            node=held.pod.spec.node_name,
            held_by=tuple(holds),
        )
    queued = queue.get(key)
    if queued is None:
        is_in_flight = any(other.metadata.uid == pod.metadata.uid for other in queue.in_flight())
        return Waiting(queue="in flight") if is_in_flight else None
    name = queue.queue_of(key)
    upcoming: float | None = None
    if name == "unschedulable":
        upcoming = queued.waiting_since_ns / NANOSECONDS + scheduler.max_unschedulable_seconds
    elif name == "backoff" and queued.backoff_expires_ns is not None:
        upcoming = queued.backoff_expires_ns / NANOSECONDS
    return Waiting(
        queue=name,
        attempts=queued.attempts,
        since=queued.timestamp_ns / NANOSECONDS,
        next=upcoming,
        rejected_by=tuple(sorted(queued.rejectors)),
    )
