"""Plugins of a universe: one writes decisions into the story, one fails, one holds pods at Permit, and one
reads objects of its own kind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kuberth.api import register_kind
from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.framework import (
    Action,
    ClusterEvent,
    CycleState,
    Diagnosis,
    EnqueueExtensions,
    EventWithHint,
    Hint,
    PermitPlugin,
    PostBindPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
)
from kuberth.framework.extension_points import PermitResult
from kuberth.framework.handle import Handle
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.status import SKIP, Status
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection
from kuberth.plugins.default_preemption.plugin import DefaultPreemption
from kuberth.queue.observing import MoveCause
from tests.universe.cluster import Story
from tests.universe.network import Network
from tests.universe.parts import SPAN_SECONDS, Fault

License = register_kind("License", group="universe.example.com", version="v1", plural="licenses")

LATE_LICENSE: Final = "z"
GATE_LICENSE: Final = "g"
RUBBISH: Final = (42, "yes", object)


class Witness(ReservePlugin):
    """Writes into the story which node a pod got, and what the process had seen by then."""

    name = "Witness"

    def __init__(self, story: Story, network: Network) -> None:
        self._story = story
        self._network = network

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        seen = dict(self._network.seen)
        version = pod.metadata.resource_version
        trial = state.group is not None
        self._note("decision", pod, node=node_name, trial=trial, seen=seen, version=version)

    def unreserve(self, _state: CycleState, pod: Pod, node_name: str) -> None:
        self._note("undone", pod, node=node_name)

    def _note(self, entry: str, pod: Pod, **fields: Any) -> None:
        if not self._network.dead:
            metadata = pod.metadata
            key = f"{metadata.namespace}/{metadata.name}"
            note = self._story.note if entry == "undone" else self._story.note_attempt
            note(entry, by=self._network.by, key=key, uid=metadata.uid, **fields)


class WitnessedPreemption(DefaultPreemption):
    """The plugin itself, with an entry in the story for every pod that is tried and finds no node."""

    def __init__(self, args: Any, handle: Handle, *, story: Story, network: Network, seed: str) -> None:
        super().__init__(args, handle, rng=random.Random(seed))
        self._story = story
        self._network = network

    def post_filter(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> Any:
        self._note_attempt(pod)
        return super().post_filter(state, pod, diagnosis)

    async def post_filter_waiting(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> Any:
        self._note_attempt(pod)
        return await super().post_filter_waiting(state, pod, diagnosis)

    def _note_attempt(self, pod: Pod) -> None:
        note_no_node(self._story, self._network, pod)


def note_no_node(story: Story, network: Network, pod: Pod) -> None:
    """Write into the story that the pod found no node, and what the process had seen by then."""
    if network.dead:
        return  # a process that is killed may run for another moment
    metadata = pod.metadata
    entry = {"by": network.by, "key": f"{metadata.namespace}/{metadata.name}", "uid": metadata.uid}
    seen, version = dict(network.seen), metadata.resource_version
    story.note_attempt("no node", **entry, seen=seen, version=version)


class WitnessedRepetitions:
    """Observes outcomes: an entry in the story for every pod that is rejected as an equal one was."""

    def __init__(self, story: Story, network: Network) -> None:
        self._story = story
        self._network = network

    def pod_moved(self, queued: QueuedPod, queue: str, cause: MoveCause) -> None:
        pass

    def pod_popped(self, queued: QueuedPod) -> None:
        pass

    def pod_done(self, uid: str) -> None:
        pass

    def pod_deleted(self, uid: str) -> None:
        pass

    def pod_held(self, placement: Placement) -> None:
        pass

    def pod_bound(self, placement: Placement, seconds: float) -> None:
        pass

    def pod_rejected(self, rejection: Rejection, seconds: float) -> None:
        if rejection.is_repeated:
            note_no_node(self._story, self._network, rejection.queued.pod)


class Activating:
    """Brings pods back some time after a plugin without events has rejected them, if it is `on`."""

    def __init__(self, handle: Handle, story: Story, network: Network, *, seed: str, on: bool) -> None:
        self._handle = handle
        self._story = story
        self._network = network
        self._on = on
        self._rng = random.Random(f"activating {seed}")

    def later(self, pod: Pod, seconds: float) -> None:
        if self._on:
            key = f"{pod.metadata.namespace}/{pod.metadata.name}"
            delay = seconds + self._rng.choice((0.0, 1.0, 10.0)) * self._rng.random()
            loop = asyncio.get_running_loop()
            loop.call_later(delay, self._activate, key, pod)  # it may come before the rejection

    def _activate(self, key: str, pod: Pod) -> None:
        self._handle.activator.activate({key: pod})
        if not self._network.dead:
            self._story.note("activated", by=self._network.by, key=key, uid=pod.metadata.uid)
            self._story.look()


class Failing(ReservePlugin, PermitPlugin, PreBindPlugin, PostBindPlugin, ScorePlugin):
    """Raises, hangs or returns rubbish while a fault says so."""

    name = "Failing"

    def __init__(
        self, activating: Activating, story: Story, network: Network, faults: Sequence[Fault], *, seed: str
    ) -> None:
        self._activating = activating
        self._story = story
        self._by = network.by
        self._faults = [each for each in faults if each.kind == "plugin" and each.concerns(network.by)]
        self._rng = random.Random(seed)

    def _answer(self, point: str, pod: Pod | None, *choices: str) -> Any:
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
                    assert pod is not None
                    self._activating.later(pod, 0.0)
                    return Status.unschedulable("a plugin of the universe rejects")
                return self._rng.choice(RUBBISH) if choice == "returns rubbish" else choice
        return None

    def score(self, _state: CycleState, _pod: Pod, _node: NodeRow) -> Any:
        answer = self._answer("Score", None, "raises", "returns rubbish")
        return 0 if answer is None else answer

    def reserve(self, _state: CycleState, pod: Pod, _node_name: str) -> Any:
        return self._answer("Reserve", pod, "raises", "rejects", "returns rubbish")

    def unreserve(self, _state: CycleState, _pod: Pod, _node_name: str) -> None:
        self._answer("Reserve", None, "raises")

    def permit(self, _state: CycleState, pod: Pod, _node_name: str) -> Any:
        return self._answer("Permit", pod, "raises", "rejects", "returns rubbish")

    def pre_bind_pre_flight(self, _state: CycleState, _pod: Pod, _node_name: str) -> Any:
        now = self._story.now
        return None if any(each.start <= now < each.end for each in self._faults) else SKIP

    async def pre_bind(self, _state: CycleState, pod: Pod, _node_name: str) -> Any:
        answer = self._answer("PreBind", pod, "raises", "rejects", "returns rubbish", "hangs")
        if answer == "hangs":
            await asyncio.sleep(self._rng.uniform(1, 60))
            return None
        return answer

    def post_bind(self, _state: CycleState, _pod: Pod, _node_name: str) -> None:
        self._answer("PostBind", None, "raises")


class Holding(PermitPlugin):
    """Holds some pods at Permit; some are let go in time, and all after the faults."""

    name = "Holding"

    def __init__(self, handle: Handle, activating: Activating, *, story: Story, seed: str) -> None:
        self._handle = handle
        self._activating = activating
        self._story = story
        self._rng = random.Random(seed)

    def permit(self, _state: CycleState, pod: Pod, _node_name: str) -> Any:
        if self._story.now > SPAN_SECONDS or self._rng.random() < 0.6:
            return None
        limit = self._rng.uniform(0.1, 20.0)
        delay = self._rng.uniform(0.0, 20.0)
        allow = self._rng.random() < 0.7
        asyncio.get_running_loop().call_later(delay, self._decide, pod.metadata.uid, allow)
        self._activating.later(pod, min(limit, delay) * self._rng.choice((0.5, 1.0)))
        return PermitResult.wait(limit, "held by a plugin of the universe")

    def _decide(self, uid: str, allow: bool) -> None:
        waiting = self._handle.waiting_pods.get(uid)
        if waiting is not None and allow:
            waiting.allow(self.name)
        elif waiting is not None:
            waiting.reject(self.name, "not allowed by a plugin of the universe")


class Sealed(PreFilterPlugin):
    """Rejects some pods for as long as a configuration has it."""

    name = "Sealed"

    def pre_filter(self, _state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        if pod.metadata.labels.get("app") == "db":
            return Status.unresolvable("sealed by a plugin of the universe")
        return None


class Licensing(PreEnqueuePlugin, PreFilterPlugin, PermitPlugin, EnqueueExtensions):
    """A pod that names a license is placed while the license is there and valid.

    License z is looked at by Permit alone, which holds the pod for a while before it rejects it. If the
    license becomes valid meanwhile, only an event that the pod missed in flight says so. License g is looked
    at by PreEnqueue alone: the pod is gated until the license is valid.
    """

    name = "Licensing"

    def __init__(self, handle: Handle, *, story: Story, seed: str) -> None:
        self._story = story
        self._licenses = handle.stores.of(License)
        self._rng = random.Random(f"licensing {seed}")

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if pod.metadata.labels.get("license") != GATE_LICENSE or self._is_valid(pod):
            return None
        return Status.unresolvable("no valid license")

    def pre_filter(self, _state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        wanted = pod.metadata.labels.get("license")
        if wanted in (None, LATE_LICENSE, GATE_LICENSE):
            return SKIP
        return None if self._is_valid(pod) else Status.unresolvable("no valid license")

    def permit(self, _state: CycleState, pod: Pod, _node_name: str) -> Any:
        if pod.metadata.labels.get("license") != LATE_LICENSE or self._is_valid(pod):
            return None
        if self._story.now > SPAN_SECONDS:
            return Status.unschedulable("no valid license")
        return PermitResult.wait(self._rng.choice((0.1, 3.0, 15.0)), "no valid license")

    def _is_valid(self, pod: Pod) -> bool:
        found = self._licenses.get(pod.metadata.labels["license"], namespace=pod.metadata.namespace)
        return found is not None and bool(found["spec"]["valid"])

    def events_to_register(self) -> Iterable[EventWithHint]:
        changed = ClusterEvent("licenses.v1.universe.example.com", Action.ADD | Action.UPDATE)
        return [EventWithHint(changed, self._after_change)]

    def _after_change(self, pod: Pod, _old: object, new: object) -> Hint:
        assert isinstance(new, License)
        own = new.metadata.namespace == pod.metadata.namespace
        named = new.metadata.name == pod.metadata.labels.get("license")
        return Hint.QUEUE if own and named and new["spec"]["valid"] else Hint.SKIP
