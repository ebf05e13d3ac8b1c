"""Plugins of a universe: one writes decisions into the story, one fails, and one holds pods at Permit."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Final

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow
from kuberth.framework import (
    CycleState,
    Diagnosis,
    PermitPlugin,
    PostBindPlugin,
    PreBindPlugin,
    ReservePlugin,
    ScorePlugin,
)
from kuberth.framework.extension_points import PermitResult
from kuberth.framework.handle import Handle
from kuberth.framework.status import SKIP, Status
from kuberth.plugins.default_preemption.plugin import DefaultPreemption
from tests.universe.cluster import Story
from tests.universe.drawing import SPAN_SECONDS, Fault
from tests.universe.network import Network

RUBBISH: Final = (42, "yes", object)


class Witness(ReservePlugin):
    """Writes into the story which node a pod got, and what the process had seen by then."""

    name = "Witness"

    def __init__(self, story: Story, network: Network) -> None:
        self._story = story
        self._network = network

    def reserve(self, _state: CycleState, pod: Pod, node_name: str) -> None:
        self._note("decision", pod, node=node_name, seen=dict(self._network.seen))

    def unreserve(self, _state: CycleState, pod: Pod, node_name: str) -> None:
        self._note("undone", pod, node=node_name)

    def _note(self, entry: str, pod: Pod, **fields: Any) -> None:
        if not self._network.dead:
            metadata = pod.metadata
            key = f"{metadata.namespace}/{metadata.name}"
            note = self._story.note if entry == "undone" else self._story.note_attempt
            note(entry, by=self._network.by, key=key, uid=metadata.uid, **fields)


class WitnessedPreemption(DefaultPreemption):
    """The plugin itself, with an entry in the story for every pod that found no node."""

    def __init__(self, args: Any, handle: Handle, *, story: Story, network: Network, seed: str) -> None:
        super().__init__(args, handle, rng=random.Random(seed))
        self._story = story
        self._network = network

    def post_filter(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> Any:
        metadata = pod.metadata
        key = f"{metadata.namespace}/{metadata.name}"
        seen = dict(self._network.seen)
        self._story.note_attempt("no node", by=self._network.by, key=key, uid=metadata.uid, seen=seen)
        return super().post_filter(state, pod, diagnosis)


class Failing(ReservePlugin, PermitPlugin, PreBindPlugin, PostBindPlugin, ScorePlugin):
    """Raises, hangs or returns rubbish while a fault says so."""

    name = "Failing"

    def __init__(self, story: Story, network: Network, faults: Sequence[Fault], *, seed: str) -> None:
        self._story = story
        self._by = network.by
        self._faults = [each for each in faults if each.kind == "plugin" and each.concerns(network.by)]
        self._rng = random.Random(seed)

    def _answer(self, point: str, *choices: str) -> Any:
        now = self._story.now
        for fault in self._faults:
            if fault.subject == point and fault.start <= now < fault.end:
                if self._rng.random() >= fault.share:
                    return None
                choice = self._rng.choice(choices)
                self._story.note("fault", by=self._by, fault=f"plugin {choice}", what=point)
                if choice == "raises":
                    raise RuntimeError("a plugin of the universe fails")
                if choice == "rejects":
                    return Status.unschedulable("a plugin of the universe rejects")
                return self._rng.choice(RUBBISH) if choice == "returns rubbish" else choice
        return None

    def score(self, _state: CycleState, _pod: Pod, _node: NodeRow) -> Any:
        answer = self._answer("Score", "raises", "returns rubbish")
        return 0 if answer is None else answer

    def reserve(self, _state: CycleState, _pod: Pod, _node_name: str) -> Any:
        return self._answer("Reserve", "raises", "rejects", "returns rubbish")

    def unreserve(self, _state: CycleState, _pod: Pod, _node_name: str) -> None:
        self._answer("Reserve", "raises")

    def permit(self, _state: CycleState, _pod: Pod, _node_name: str) -> Any:
        return self._answer("Permit", "raises", "rejects", "returns rubbish")

    def pre_bind_pre_flight(self, _state: CycleState, _pod: Pod, _node_name: str) -> Any:
        now = self._story.now
        return None if any(each.start <= now < each.end for each in self._faults) else SKIP

    async def pre_bind(self, _state: CycleState, _pod: Pod, _node_name: str) -> Any:
        answer = self._answer("PreBind", "raises", "rejects", "returns rubbish", "hangs")
        if answer == "hangs":
            await asyncio.sleep(self._rng.uniform(1, 60))
            return None
        return answer

    def post_bind(self, _state: CycleState, _pod: Pod, _node_name: str) -> None:
        self._answer("PostBind", "raises")


class Holding(PermitPlugin):
    """Holds some pods at Permit; some are let go in time, and all after the faults."""

    name = "Holding"

    def __init__(self, handle: Handle, *, story: Story, seed: str) -> None:
        self._handle = handle
        self._story = story
        self._rng = random.Random(seed)

    def permit(self, _state: CycleState, pod: Pod, _node_name: str) -> Any:
        if self._story.now > SPAN_SECONDS or self._rng.random() < 0.6:
            return None
        limit = self._rng.uniform(0.1, 20.0)
        delay = self._rng.uniform(0.0, 20.0)
        allow = self._rng.random() < 0.9
        asyncio.get_running_loop().call_later(delay, self._decide, pod.metadata.uid, allow)
        return PermitResult.wait(limit, "held by a plugin of the universe")

    def _decide(self, uid: str, allow: bool) -> None:
        waiting = self._handle.waiting_pods.get(uid)
        if waiting is not None and allow:
            waiting.allow(self.name)
        elif waiting is not None:
            waiting.reject(self.name, "not allowed by a plugin of the universe")
