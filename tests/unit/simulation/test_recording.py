"""A cluster followed, and played again."""

from __future__ import annotations

import asyncio

import msgspec

from kuberth.api.core import Pod
from kuberth.clock import run_in_virtual_time
from kuberth.local.memory_api import MemoryApi
from kuberth.simulation.recording import Recording
from kuberth.testing import make_pod


def test_pods_that_come_are_recorded_with_their_times_and_specs() -> None:
    async def main() -> Recording:
        api = MemoryApi()
        api.put(make_pod("before"))
        recording = Recording(api, now=asyncio.get_running_loop().time)
        following = asyncio.ensure_future(recording.follow())
        await asyncio.sleep(10)
        api.put(make_pod("p", cpu="2", priority=7))
        await asyncio.sleep(5)
        api.change(
            Pod,
            "default/p",
            lambda pod: msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="n")),
        )
        await asyncio.sleep(20)
        api.remove(Pod, "default/p")
        api.put(make_pod("p"))
        api.remove(Pod, "default/before")
        await asyncio.sleep(1)
        following.cancel()
        return recording

    first, second = run_in_virtual_time(main).arrivals()
    assert (first.name, first.arrival, first.duration, first.priority) == ("p", 10, 20, 7)
    assert first.spec["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    assert "nodeName" not in first.spec
    assert (second.name, second.arrival, second.duration) == ("p.2", 35, None)
