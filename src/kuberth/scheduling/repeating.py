"""Rejects pods as equal pods were rejected, many of them in one turn of the event loop.

In: the queue, and the rejections that plans keep. Out: pods back in the queue, counted and reported, and the
first pod that has to be tried. Nothing else runs meanwhile, so a rejection that holds for one pod of a batch
holds for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from kuberth.cluster.table import ClusterTable
from kuberth.framework.equal_pods import KeptRejection
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.runner import Runner
from kuberth.outcomes.failure_handling import FailureHandler
from kuberth.queue.interface import SchedulingQueue
from kuberth.scheduling.cycle import SchedulingCycle

AT_ONCE: Final = 100
"""Pods that are rejected in one turn of the event loop: about a millisecond."""


class Repeating:
    """Takes pods from a queue, and puts those back whose equals were rejected."""

    def __init__(
        self,
        *,
        queue: SchedulingQueue,
        cluster: ClusterTable,
        runners: Mapping[str, Runner],
        cycle: SchedulingCycle,
        failures: FailureHandler,
    ) -> None:
        self._queue = queue
        self._cluster = cluster
        self._runners = runners
        self._cycle = cycle
        self._failures = failures

    def pop(self) -> tuple[bool, QueuedPod | None]:
        """The next pod that has to be tried; and if there is none, whether to call again soon."""
        rejected: dict[str, list[tuple[QueuedPod, KeptRejection]]] = {}
        known: dict[str, dict[bytes, KeptRejection | None]] = {}
        started = time.perf_counter()

        def rejection_of(queued: QueuedPod) -> KeptRejection | None:
            """How an equal pod was rejected, if nothing but that can come of an attempt."""
            info = queued.info
            pod = info.pod
            profile = pod.spec.scheduler_name
            runner = self._runners.get(profile)
            plans = None if runner is None else runner.plans
            if runner is None or plans is None:
                return None
            signature = plans.signature(info)
            if signature is None:
                return None
            of_profile = known.get(profile)
            if of_profile is None:
                of_profile = known[profile] = {}
            try:
                kept = of_profile[signature]
            except KeyError:
                kept = plans.rejection(info)
                if kept is not None and self._cycle.is_check_due():
                    return None
                of_profile[signature] = kept
            if (
                kept is None
                or pod.metadata.deletion_timestamp is not None
                or self._cluster.is_assumed(info.uid)
                or plans.rejections.has_nomination(info)
                or not self._failures.is_present_version(queued)
                or (runner.extenders and runner.extenders.decide_about(pod))
            ):
                return None
            return kept

        def reject(queued: QueuedPod, kept: KeptRejection) -> None:
            profile = queued.info.pod.spec.scheduler_name
            rejected.setdefault(profile, []).append((queued, kept))
            self._cycle.count_repeated()
            self._failures.prepare_repeated(queued, kept, self._runners[profile], started)

        popped = self._queue.pop_rejecting(rejection_of, reject, limit=AT_ONCE)
        if rejected:
            seconds = time.perf_counter() - started
            for profile, pods in rejected.items():
                self._failures.report_repeated(pods, self._runners[profile], seconds)
        return popped
