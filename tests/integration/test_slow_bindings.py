"""An urgent pod does not wait behind hundreds of bindings that the API server has not answered yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kuberth.api.core import Binding, Pod
from kuberth.api.wire import decode
from kuberth.assembly import Scheduler
from kuberth.client.adaptive_limit import CEILING
from kuberth.client.writes import Write
from kuberth.clock import LoopClock, run_in_virtual_time
from kuberth.testing import MemoryApi, make_node, make_pod

SLOTS = 16
SERVICE_SECONDS = 0.2
"""Of one binding: the server binds 80 pods a second."""
PODS = 6000


class BusyServer(MemoryApi):
    """Takes every binding at once and carries out `SLOTS` at a time, in order of arrival."""

    def __init__(self) -> None:
        super().__init__(clock=LoopClock(asyncio.get_running_loop()))
        self._slots = asyncio.Semaphore(SLOTS)
        self._work: set[asyncio.Task[None]] = set()

    def post_nowait(
        self, write: Write, *, check: Callable[[], None] | None = None
    ) -> asyncio.Future[None] | None:
        if write.subresource != "binding":
            return None
        task = asyncio.get_running_loop().create_task(self._carry_out(write.body), name=str(write))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    async def _carry_out(self, body: bytes) -> None:
        async with self._slots:
            await asyncio.sleep(SERVICE_SECONDS)
            self.assign(decode(Binding, body))

    def is_bound(self, name: str) -> bool:
        return bool(self.read(Pod, f"default/{name}").spec.node_name)


def test_an_urgent_pod_waits_for_few_bindings_of_a_saturated_server() -> None:
    async def main() -> None:
        api, loop = BusyServer(), asyncio.get_running_loop()
        api.put(make_node("n1", cpu="1000", pods="20000"))
        for number in range(PODS):
            api.put(make_pod(f"p{number}", cpu="1m"))
        scheduler = Scheduler(api, clock=LoopClock(loop))
        running = asyncio.ensure_future(scheduler.run())
        for moment in range(20, 60, 10):
            await asyncio.sleep(moment - loop.time())
            limit = scheduler.metrics.write_limit.values["binding",]
            in_flight = scheduler.metrics.writes_in_flight.values["binding",]
            assert SLOTS <= in_flight <= limit < CEILING / 4
            name = f"urgent{moment}"
            api.put(make_pod(name, cpu="1m", priority=10))
            while not api.is_bound(name):
                await api.next_change()
            # Those that were sent before it, in rounds of a service time, and its own.
            assert loop.time() - moment <= (limit / SLOTS + 2) * SERVICE_SECONDS
        bound = sum(api.is_bound(f"p{number}") for number in range(PODS))
        assert bound >= 0.97 * (loop.time() - 3) * SLOTS / SERVICE_SECONDS  # the server never idles
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_in_virtual_time(main, limit_seconds=3600)
