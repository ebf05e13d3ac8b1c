"""A watch whose server says nothing while the connection stays open, over real HTTPS."""

from __future__ import annotations

import asyncio

import pytest

from kuberth.api.core import Pod
from kuberth.informers import reflector as reflecting
from kuberth.informers.reflector import Reflector
from kuberth.informers.store import Store
from tests.unit.client.https_server import Asked, Reply, api_on, run


def test_the_connection_is_given_up_and_the_watch_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflecting, "SILENT_SECONDS", 0.3)
    watches: list[str] = []
    left, seen = asyncio.Event(), asyncio.Event()

    async def handler(asked: Asked, reply: Reply) -> None:
        if "watch" not in asked.query:
            await reply.send({"metadata": {"resourceVersion": "7"}, "items": []})
            return
        watches.append(asked.query["resourceVersion"])
        await reply.start_chunks()
        if len(watches) == 1:
            await reply.event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
            await reply.hang()
            left.set()
            return
        await reply.event("ADDED", {"metadata": {"name": "p", "namespace": "d", "resourceVersion": "10"}})
        await reply.hang()

    async def main() -> None:
        async with api_on(handler) as (api, _server):
            store = Store[Pod]()
            reflector = Reflector(api, Pod, store, lambda _old, _new: seen.set())
            task = asyncio.create_task(reflector.run(), name="reflector")
            await seen.wait()
            await left.wait()
            assert watches[:2] == ["7", "9"]
            assert store.get("p", namespace="d") is not None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(main, limit_seconds=30)
