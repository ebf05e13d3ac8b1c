"""Why pods of a workload are refused: from its conditions, and from events about it."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.explaining import Question, explain
from kuberth.explaining.sources import refusal, template_pod
from kuberth.testing import make_node, make_pod

QUOTA = 'pods "web-0" is forbidden: exceeded quota: one, requested: pods=1, used: pods=1, limited: pods=1'


def workload(kind: str, *, spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> Any:
    metadata = {"name": "web", "namespace": "shop", "uid": "u"}
    return {"kind": kind, "metadata": metadata, "spec": spec or {}, "status": status or {}}


def failing(status: str) -> dict[str, Any]:
    return {"conditions": [{"type": "ReplicaFailure", "status": status, "message": QUOTA}]}


def event(message: str = QUOTA, *, at: str = "2026-01-01T00:00:00Z", **more: Any) -> dict[str, Any]:
    about = {"kind": "StatefulSet", "name": "web", "namespace": "shop", "uid": "u"}
    return {"reason": "FailedCreate", "involvedObject": about, "message": message, "lastTimestamp": at} | more


SHORT = workload("StatefulSet", spec={"replicas": 2}, status={"replicas": 1})


@pytest.mark.parametrize(
    "tree, events, expected",
    [
        pytest.param(
            workload("Deployment", status=failing("True")), [], f"cannot create pods: {QUOTA}", id="condition"
        ),
        pytest.param(workload("Deployment", status=failing("False")), [], "", id="condition-that-is-over"),
        pytest.param(workload("Deployment"), [], "", id="nothing"),
        pytest.param(
            SHORT,
            [event("old"), event(at="2026-01-02T00:00:00Z"), event("older", at="2025-01-01T00:00:00Z")],
            f"could not create a pod at 2026-01-02T00:00:00Z: {QUOTA}",
            id="last-event",
        ),
        pytest.param(
            SHORT,
            [event(lastTimestamp=None, eventTime="2026-01-03T00:00:00Z")],
            f"could not create a pod at 2026-01-03T00:00:00Z: {QUOTA}",
            id="event-of-the-new-api",
        ),
        pytest.param(
            workload("StatefulSet", spec={"replicas": 1}, status={"replicas": 1}),
            [event()],
            "",
            id="all-pods-are-there",
        ),
        pytest.param(SHORT, [event(reason="SuccessfulCreate")], "", id="another-reason"),
        pytest.param(
            SHORT,
            [event(involvedObject={"kind": "StatefulSet", "name": "web", "namespace": "shop", "uid": "v"})],
            "",
            id="another-object-of-the-name",
        ),
        pytest.param(
            SHORT,
            [event(involvedObject={"kind": "StatefulSet", "name": "db", "namespace": "shop"})],
            "",
            id="another-name",
        ),
        pytest.param(
            workload("DaemonSet", status={"desiredNumberScheduled": 1, "currentNumberScheduled": 1}),
            [event(involvedObject={"kind": "DaemonSet", "name": "web", "namespace": "shop"})],
            "",
            id="a-daemon-set-that-is-complete",
        ),
        pytest.param(
            workload("Job"),
            [event(involvedObject={"kind": "Job", "name": "web", "namespace": "shop"})],
            f"could not create a pod at 2026-01-01T00:00:00Z: {QUOTA}",
            id="job",
        ),
    ],
)
def test_refusals(tree: Any, events: list[Any], expected: str) -> None:
    assert refusal(tree, events) == expected


def test_a_refused_workload_is_missing_its_pods() -> None:
    tree = workload("Deployment", spec={"template": {"spec": {"containers": [{"name": "c"}]}}})
    question = Question(template_pod(tree), [make_node("n")], refusal=f"cannot create pods: {QUOTA}")
    explanation = explain(question)
    assert explanation.verdict == "fits"
    assert [each.text for each in explanation.missing] == [f"Deployment shop/web cannot create pods: {QUOTA}"]


def test_a_pod_without_an_owner_has_no_workload_that_is_refused() -> None:
    assert explain(Question(make_pod("p"), [make_node("n")], refusal="cannot create pods")).missing == ()
