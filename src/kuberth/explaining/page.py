"""`/explain?pod=NAME&namespace=NS` on a running scheduler: its own queue, its own rules, its own cluster.

In: a request. Out: the JSON of an explanation. The objects are taken and judged in a thread beside the
scheduler, one question at a time; how many there are costs the scheduler's event loop nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kuberth.api.core import Pod
from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import NANOSECONDS
from kuberth.errors import KuberthError
from kuberth.explaining.explanation import explain
from kuberth.explaining.question import Question, Waiting
from kuberth.explaining.targets import Asked, unknown_pod
from kuberth.explaining.trees import to_tree
from kuberth.https.messages import JSON, Request, Response
from kuberth.informers.store import Store, object_key
from kuberth.serving.messages import Handler, failure, failure_tree

PATH: Final = "/explain"


def explain_page(scheduler: Scheduler) -> Handler:
    """The page of one scheduler."""
    # Whoever asks in crowds waits in line: the scheduler shares its processor with one of them. Who goes away
    # gives up a place in the line, but not the thread while it still works.
    worker = ThreadPoolExecutor(1, thread_name_prefix="explain")

    def page(request: Request) -> Response:
        name, namespace = request.query.text("pod"), request.query.text("namespace") or "default"
        if not name:
            return failure(400, "BadRequest", "which pod? ask for /explain?pod=NAME&namespace=NAMESPACE")
        pods = scheduler.stores.of(Pod)
        pod = pods.get(name, namespace=namespace)
        if pod is None:
            answer = partial(_unknown, pods, Asked("Pod", name), namespace)
            return Response(_body(answer, worker), status=404, content_type=JSON)
        answer = partial(_explained, scheduler, _question(scheduler, pod))
        return Response(_body(answer, worker), content_type=JSON)

    return page


async def _body(answer: Callable[[], Any], worker: Executor) -> AsyncIterator[bytes]:
    def encoded() -> bytes:
        return json.dumps(answer(), ensure_ascii=False, separators=(",", ":")).encode()

    yield await asyncio.get_running_loop().run_in_executor(worker, encoded)


def _question(scheduler: Scheduler, pod: Pod) -> Question:
    """What the scheduler knows of the pod and of its own rules; the objects are still to be taken."""
    return Question(
        pod,
        (),
        config=scheduler.config,
        registry=scheduler.registry,
        feature_gates=scheduler.feature_gates,
        waiting=_waiting(scheduler, pod),
    )


def _waiting(scheduler: Scheduler, pod: Pod) -> Waiting | None:
    key, queue = object_key(pod), scheduler.queue
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


# In the worker's thread


def _unknown(pods: Store[Pod], target: Asked, namespace: str) -> dict[str, Any]:
    """That there is no such pod, and which are near: that takes a look at all of them."""
    return failure_tree(404, "NotFound", str(unknown_pod(pods.snapshot(), target, namespace)))


def _explained(scheduler: Scheduler, question: Question) -> Any:
    # Assumed pods first: one that is confirmed meanwhile has its node in the store.
    assumed = {info.uid: info.pod for info in scheduler.cluster.assumed_pods()}
    stores = scheduler.stores
    objects = [
        assumed.get(obj.metadata.uid, obj) if kind is Pod else obj
        for kind in stores.kinds()
        for obj in stores.of(kind).snapshot()
    ]
    try:
        return to_tree(explain(replace(question, objects=objects)))
    except KuberthError as error:
        # The head of the answer has been sent; its kind tells what it is.
        return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": str(error)}
