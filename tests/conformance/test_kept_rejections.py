"""The corpus asked again: a pod that fits nowhere is rejected in the words in which an equal one was."""

from __future__ import annotations

import random

import msgspec
import pytest

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.diagnosis import FitError
from kuberth.framework.queued_pod import QueuedPod
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection
from kuberth.plugins.default_preemption.eviction import Evictions
from kuberth.scheduling.cycle import SchedulingCycle
from tests.conformance.cases import Case
from tests.conformance.replay import evaluator_of, object_of
from tests.conformance.test_corpus import FAMILIES, cases_of

KINDS = ("schedule", "preempt")
NAMES = [name for name, (kind, _lines) in FAMILIES.items() if kind in KINDS]


@pytest.fixture(autouse=True)
def _without_evictions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node is nominated, and its pods stay."""
    monkeypatch.setattr(Evictions, "start", lambda *_: None)


class Attempts:
    """Attempts for pods that differ in name and UID only, over one cluster."""

    def __init__(self, case: Case) -> None:
        self._evaluator = evaluator_of(case)
        self._pod: Pod = object_of("Pod", case["pod"])
        self._cycle = SchedulingCycle(
            self._evaluator.cluster,
            nominator=self._evaluator.nominator,
            metrics=self._evaluator.runner.metrics,
            rng=random.Random(1),
            check_every=0,
        )
        self.repeated = 0

    def run(self, number: int) -> tuple[object, ...] | None:
        """How the attempt ends; None: with a node, or one that is being made free."""
        metadata = msgspec.structs.replace(self._pod.metadata, name=f"pod-{number}", uid=f"uid-{number}")
        pod = msgspec.structs.replace(self._pod, metadata=metadata)
        self._evaluator.stores.of(Pod).set(pod)
        outcome = self._cycle.run(QueuedPod(PodInfo(pod), timestamp_ns=0), self._evaluator.runner)
        if isinstance(outcome, Placement) or outcome.nomination:
            return None
        self.repeated += outcome.is_repeated
        return self._seen(outcome)

    def _seen(self, rejection: Rejection) -> tuple[object, ...]:
        status, cluster = rejection.status, self._evaluator.cluster
        if not isinstance(status.cause, FitError):
            return (status,)
        diagnosis = status.cause.diagnosis
        nodes = {
            name: diagnosis.status_of(name, row=cluster.row_of(name)) for name in cluster.all_nodes().names()
        }
        return status, nodes, diagnosis.unschedulable_plugins, diagnosis.pending_plugins


@pytest.mark.parametrize("name", NAMES)
def test_equal_pods_are_rejected_alike(name: str) -> None:
    for case in cases_of(name):
        attempts = Attempts(case)
        first = attempts.run(0)
        for number in range(1, 4):
            if first is None:
                break
            assert attempts.run(number) == first, case["id"]


def test_rejections_are_repeated() -> None:
    """Otherwise nothing was compared."""
    repeated = 0
    for name in NAMES:
        for case in cases_of(name)[:20]:
            attempts = Attempts(case)
            for number in range(4):
                if attempts.run(number) is None:
                    break
            repeated += attempts.repeated
    assert repeated > 100
