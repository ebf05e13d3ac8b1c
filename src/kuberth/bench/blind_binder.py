"""`python -m kuberth.bench.blind_binder KUBECONFIG`: bind every pod to the next node.

In: pending pods. Out: bindings to the nodes in turn, and the event that a scheduler writes. It measures the
API server and the network alone: an upper bound for every scheduler.
"""

from __future__ import annotations

import asyncio
import datetime
import sys
from typing import Final

from kuberth.api import Binding, Node, ObjectMeta, Pod
from kuberth.api.events import Event
from kuberth.api.references import ObjectReference
from kuberth.api.wire import MicroTime
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.clock import run_on_fastest_loop
from kuberth.errors import ApiError
from kuberth.informers.reflector import Reflector
from kuberth.informers.store import Store

NAME: Final = "blind-binder"
_WORKERS: Final = 32


class RoundRobin:
    """The pending pods, and the next node."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[Pod] = asyncio.Queue()
        self.has_nodes = asyncio.Event()
        self._nodes: list[str] = []
        self._next = 0
        self._seen: set[str] = set()

    def handle_node(self, old: Node | None, new: Node | None) -> None:
        if old is None and new is not None:
            self._nodes.append(new.metadata.name)
            self.has_nodes.set()
        elif new is None and old is not None:
            self._nodes.remove(old.metadata.name)
            if not self._nodes:
                self.has_nodes.clear()

    def handle_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._seen.discard(old.metadata.uid)
        elif not new.spec.node_name and not new.spec.scheduling_gates and new.metadata.uid not in self._seen:
            self._seen.add(new.metadata.uid)
            self.waiting.put_nowait(new)

    async def next_node(self) -> str:
        await self.has_nodes.wait()
        self._next = (self._next + 1) % len(self._nodes)
        return self._nodes[self._next]


async def bind_all(kubeconfig: str) -> None:
    client = load_client_config(kubeconfig=kubeconfig)
    turns = RoundRobin()
    async with HttpApi(client, qps=-1, max_connections=_WORKERS + 4) as api, asyncio.TaskGroup() as tasks:
        nodes = Reflector(api, Node, Store(), turns.handle_node)
        pods = Reflector(api, Pod, Store(), turns.handle_pod)
        tasks.create_task(nodes.run(), name="watch of nodes")
        tasks.create_task(pods.run(), name="watch of pods")
        for number in range(_WORKERS):
            tasks.create_task(_bind(api, turns), name=f"binder {number}")


async def _bind(api: HttpApi, turns: RoundRobin) -> None:
    while True:
        pod = await turns.waiting.get()
        node = await turns.next_node()
        metadata = pod.metadata
        try:
            await api.bind(
                Binding(
                    metadata=ObjectMeta(name=metadata.name, namespace=metadata.namespace, uid=metadata.uid),
                    target=ObjectReference(kind="Node", name=node),
                )
            )
            await api.create(_event(pod, node))
        except ApiError as error:
            # Most likely the pod was deleted meanwhile; the benchmark continues.
            print(error, file=sys.stderr)  # noqa: T201 - this is a program, and that its log


def _event(pod: Pod, node: str) -> Event:
    metadata = pod.metadata
    return Event(
        metadata=ObjectMeta(generate_name=f"{metadata.name}.", namespace=metadata.namespace),
        event_time=MicroTime.now(datetime.UTC),
        reporting_controller=NAME,
        reporting_instance=NAME,
        action="Binding",
        reason="Scheduled",
        type="Normal",
        note=f"Successfully assigned {metadata.namespace}/{metadata.name} to {node}",
        regarding=ObjectReference(
            kind="Pod", namespace=metadata.namespace, name=metadata.name, uid=metadata.uid, api_version="v1"
        ),
    )


if __name__ == "__main__":
    run_on_fastest_loop(bind_all(sys.argv[1]))
