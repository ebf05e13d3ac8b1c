"""The usage of a run: what is taken, wasted and shared."""

from __future__ import annotations

import pytest

from kuberth.api.core import Pod
from kuberth.simulation.observing import ClusterUsage
from kuberth.testing import make_node, make_pod


def usage(*nodes: str) -> ClusterUsage:
    return ClusterUsage([make_node(name, cpu="4", memory="8Gi") for name in nodes])


def placed(on: ClusterUsage, name: str, *, node: str, cpu: str, namespace: str = "default") -> Pod:
    pod = make_pod(name, cpu=cpu, namespace=namespace)
    on.record_arrival(pod, 0.0)
    bound = make_pod(name, cpu=cpu, namespace=namespace, node=node, uid=pod.metadata.uid)
    on.record_start(bound, 1.0)
    return bound


def shares(on: ClusterUsage) -> dict[str, float]:
    return dict(zip(on.resources, on.used(), strict=True))


def test_queue_is_taken_and_given_back() -> None:
    kept = usage("a", "b")
    pod = placed(kept, "p", node="a", cpu="2")
    assert shares(kept)["cpu"] == pytest.approx(0.25)
    assert (kept.running, kept.waiting) == (1, 0)
    kept.record_end(pod, finished=True)
    kept.record_end(pod, finished=True)
    assert shares(kept) == {"cpu": 0, "memory": 0, "pods": 0}
    assert kept.counts().finished == 1


def test_queue_that_no_pod_can_use_is_fragmented() -> None:
    kept = usage("a", "b")
    assert kept.fragmentation() == 0
    placed(kept, "p", node="a", cpu="3")
    # One CPU is free on a, where the only kind of pod there is does not fit; four are on b, where it does.
    assert kept.fragmentation() == pytest.approx(1 / 5)
    placed(kept, "q", node="b", cpu="3")
    assert kept.fragmentation() == 1


def test_fairness_is_among_tenants_that_want_something() -> None:
    kept = usage("a", "b")
    assert kept.fairness() == 1
    placed(kept, "p", node="a", cpu="2", namespace="blue")
    assert kept.fairness() == 1
    kept.record_arrival(make_pod("w", cpu="1", namespace="red"), 0.0)
    assert kept.fairness() == pytest.approx(1 / 2), "one of two has all"
    placed(kept, "q", node="b", cpu="2", namespace="red")
    assert kept.fairness() == 1


def test_a_pod_on_a_node_that_is_not_measured_counts_once() -> None:
    kept = usage("a")
    pod = placed(kept, "p", node="elsewhere", cpu="2")
    assert kept.has_started(pod)
    assert shares(kept)["cpu"] == 0
    kept.record_end(pod, finished=True)
    assert (kept.running, kept.waiting) == (0, 0)
