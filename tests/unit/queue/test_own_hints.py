"""A custom queue that calls the plugins' hints, inside a whole scheduler (KEP-2779, KEP-4247)."""

from __future__ import annotations

from kuberth.api.core import Node, Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import ClusterEvent, Hint
from kuberth.framework.cluster_events import concerns
from kuberth.framework.status import Status
from kuberth.queue import PreCheck
from kuberth.testing import make_node, make_pod, run_in_virtual_time
from kuberth.testing.harness import running_with
from tests.integration.recording import Recording
from tests.unit.queue.fifo import Fifo


class HintingFifo(Fifo):
    """Brings back only pods for which a hint of a rejecting plugin says Queue, and never by time."""

    def move(
        self, event: ClusterEvent, old: object, new: object, *, pre_check: PreCheck | None = None
    ) -> None:
        for key, queued in list(self._waiting.items()):
            for registered in self._context.hints[queued.pod.spec.scheduler_name]:
                if registered.plugin not in queued.rejectors or not concerns(registered.event, event):
                    continue
                if registered.hint is None or registered.hint(queued.pod, old, new) is Hint.QUEUE:
                    self._line[key] = self._waiting.pop(key)
                    self._notify()
                    break

    def update(self, old: Pod, new: PodInfo) -> None:
        if (queued := self._waiting.get(new.key)) is not None and queued.rejectors:
            queued.info = new
        else:
            super().update(old, new)

    def tick(self) -> float:
        return 3600.0


def test_hints_of_the_context_are_those_of_the_plugins() -> None:
    async def scenario() -> None:
        plugin = Recording()
        plugin.behave["Filter"] = lambda _pod: Status.unschedulable("not here")
        async with running_with(plugin, make_node("n1"), make_pod("p"), queue=HintingFifo) as world:
            await world.in_queue("p", "unschedulable")
            plugin.behave = {"Hint": lambda _pod: Hint.SKIP}
            world.api.put(make_node("n2"))
            await world.quiet(seconds=400)
            assert (world.queue_of("p"), plugin.calls.count("Hint p")) == ("unschedulable", 1)
            world.api.change(Node, "n1", lambda node: node)
            await world.quiet()
            assert plugin.calls.count("Hint p") == 1, "the plugin registered for additions alone"
            plugin.behave = {"Hint": lambda _pod: Hint.QUEUE}
            world.api.put(make_node("n3"))
            await world.bound("p", seconds=1)
            assert (plugin.calls.count("Hint p"), plugin.calls.count("PreFilter p")) == (2, 2)

    run_in_virtual_time(scenario)
