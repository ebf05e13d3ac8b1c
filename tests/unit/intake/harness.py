"""A whole scheduler that does not run: objects are handed to its intake, its queue is looked at."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from kuberth.assembly.scheduler import Scheduler
from kuberth.config import FeatureGates, load
from kuberth.framework.queued_pod import QueuedPod
from kuberth.testing import FakeClock, MemoryApi
from kuberth.testing.harness import API_VERSION
from tests.unit.queue.harness import START_NS, pop_named, queue_of_each, requeue_rejected


class IntakeHarness:
    """Objects come and go one by one, as informers would deliver them."""

    def __init__(
        self,
        *objects: Any,
        gates: Mapping[str, bool] | None = None,
        profiles: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> None:
        feature_gates = FeatureGates(gates or {})
        tree = {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": profiles}
        self.clock = FakeClock(START_NS)
        self.scheduler = Scheduler(
            MemoryApi(),
            config=None if profiles is None else load(tree, feature_gates=feature_gates.explicit),
            feature_gates=feature_gates,
            clock=self.clock,
            rng=random.Random(1),
            **options,
        )
        self.queue = self.scheduler.queue
        self.cluster = self.scheduler.cluster
        self.put(*objects)

    def put(self, *objects: Any) -> None:
        """New objects, or new versions of them."""
        for obj in objects:
            store = self.scheduler.stores.of(type(obj))
            metadata = obj.metadata
            old = store.get(metadata.name, namespace=getattr(metadata, "namespace", ""))
            store.set(obj)
            self.scheduler.intake.handler(type(obj))(old, obj)

    def remove(self, *objects: Any) -> None:
        for obj in objects:
            self.scheduler.stores.of(type(obj)).remove(obj)
            self.scheduler.intake.handler(type(obj))(obj, None)

    def attempt(self, name: str) -> QueuedPod:
        """Let a pod, the next one, fail a real scheduling cycle."""
        queued = pop_named(self.queue, name)
        # As the loop does it with a pod it has popped.
        self.scheduler.loop._schedule(queued, self.scheduler.runners[queued.pod.spec.scheduler_name])
        assert self.queue.get(queued.key) is queued, "it was not rejected"
        return queued

    def reject(self, name: str, *plugins: str) -> QueuedPod:
        """Let the next pod be rejected by these plugins, whatever they would say."""
        queued = pop_named(self.queue, name)
        requeue_rejected(self.queue, queued, *plugins)
        return queued

    @property
    def queues(self) -> dict[str, str]:
        """Which queue every waiting pod is in."""
        return queue_of_each(self.queue)
