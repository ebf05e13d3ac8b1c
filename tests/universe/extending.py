"""The extender of a universe, in place of the connections to it.

In: the requests of the scheduler, and the faults. Out: the answers; every third node is refused.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any

from kuberth.client.connecting.connection import HttpAnswer
from kuberth.client.connecting.pool import OutgoingRequest
from kuberth.errors import UnreachableError
from tests.universe.cluster import Story
from tests.universe.parts import Fault
from tests.universe.rules import refused_by_extender


class PlayedExtender:
    """Answers as a `Pool` does."""

    def __init__(self, story: Story, by: str, faults: Sequence[Fault], *, seed: str) -> None:
        self._story = story
        self._by = by
        self._faults = [fault for fault in faults if fault.kind == "extender"]
        self._rng = random.Random(f"extender {seed}")

    async def ask(self, request: OutgoingRequest, _credential: object) -> HttpAnswer:
        head, _, body = request.data.partition(b"\r\n\r\n")
        outcome = self._outcome()
        seconds = self._rng.uniform(0.0, 0.05)
        if "slow" in outcome:
            seconds += self._rng.uniform(0.0, 4.0) if outcome == "slow" else 60.0
        if asyncio.get_running_loop().time() + seconds >= request.deadline:
            await asyncio.sleep(max(0.0, request.deadline - asyncio.get_running_loop().time()))
            raise UnreachableError(f"{request.what}: no answer in time")
        await asyncio.sleep(seconds)
        if outcome == "refused":
            raise UnreachableError(f"{request.what}: the connection was refused")
        if outcome == "error":
            return HttpAnswer(500, {}, b"")
        if outcome == "rubbish":
            return HttpAnswer(200, {}, b'{"NodeNames": [1, null]')
        return HttpAnswer(200, {}, json.dumps(self._answer(head, json.loads(body))).encode())

    def _answer(self, head: bytes, asked: dict[str, Any]) -> Any:
        names = asked["NodeNames"]
        if b"/prioritize" in head:
            return [{"Host": name, "Score": self._rng.randint(0, 10)} for name in names]
        refused = [name for name in names if refused_by_extender(name)]
        kept = [name for name in names if name not in refused]
        return {"NodeNames": kept, "FailedNodes": dict.fromkeys(refused, "every third node is refused")}

    def _outcome(self) -> str:
        now = self._story.now
        for fault in self._faults:
            if fault.start <= now < fault.end and self._rng.random() < fault.share:
                outcome = self._rng.choice(fault.outcomes)
                self._story.note("fault", by=self._by, fault=f"extender {outcome}", what="")
                return outcome
        return ""

    async def close(self) -> None:
        """There are no connections."""
