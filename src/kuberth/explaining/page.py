"""`/explain?pod=NAME&namespace=NS` on a running scheduler: its own queue, its own rules, its own cluster.

In: a request. Out: the JSON of an explanation. The objects are taken at once, as a cycle would see them, and
judged in a thread beside the scheduler, one question at a time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Final

from kuberth.api.core import Pod
from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import NANOSECONDS
from kuberth.errors import ConfigError, KuberthError
from kuberth.explaining.explanation import explain
from kuberth.explaining.question import Question, Waiting
from kuberth.explaining.sources import Asked, find_pod
from kuberth.explaining.trees import to_tree
from kuberth.https.messages import JSON, Request, Response
from kuberth.serving.messages import Handler, failure

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
        try:
            pod = find_pod(scheduler.stores.of(Pod), Asked("Pod", name), namespace)
        except ConfigError as error:
            return failure(404, "NotFound", str(error))
        return Response(_answer(question_of(scheduler, pod), worker), content_type=JSON)

    return page


def question_of(scheduler: Scheduler, pod: Pod) -> Question:
    """What the scheduler knows now, taken without a pause."""
    cluster = scheduler.cluster
    assumed = {info.key: info.pod for info in cluster.placed_pods() if cluster.is_assumed(info.uid)}
    objects: list[Any] = [
        assumed.get(f"{obj.metadata.namespace}/{obj.metadata.name}", obj) if kind is Pod else obj
        for kind in scheduler.stores.kinds()
        for obj in scheduler.stores.of(kind)
    ]
    return Question(
        pod,
        objects,
        config=scheduler.config,
        registry=scheduler.registry,
        feature_gates=scheduler.feature_gates,
        waiting=_waiting(scheduler, pod),
    )


def _waiting(scheduler: Scheduler, pod: Pod) -> Waiting | None:
    key = f"{pod.metadata.namespace}/{pod.metadata.name}"
    for room, waiting in scheduler.queue.rooms().items():
        for queued in waiting:
            if queued.key != key:
                continue
            upcoming: float | None = None
            if room == "unschedulable":
                upcoming = queued.waiting_since_ns / NANOSECONDS + scheduler.max_unschedulable_seconds
            elif room == "backoff" and queued.backoff_expires_ns is not None:
                upcoming = queued.backoff_expires_ns / NANOSECONDS
            return Waiting(
                room=room,
                attempts=queued.attempts,
                since=queued.timestamp_ns / NANOSECONDS,
                next=upcoming,
                rejected_by=tuple(sorted(queued.rejectors)),
            )
    if any(other.metadata.uid == pod.metadata.uid for other in scheduler.queue.in_flight()):
        return Waiting(room="in flight")
    return None


async def _answer(question: Question, worker: Executor) -> AsyncIterator[bytes]:
    try:
        tree = to_tree(await asyncio.get_running_loop().run_in_executor(worker, explain, question))
    except KuberthError as error:
        # The head of the answer has been sent; its kind tells what it is.
        tree = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": str(error)}
    yield json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()
