"""The JSON of an explanation, whose shape programs rely on."""

from __future__ import annotations

import json
from typing import Any

from kuberth.explaining import Question, Waiting, explain
from kuberth.explaining.explanation import to_tree
from kuberth.testing import make_node, make_pod


def tree(pod: Any, *objects: Any, **more: Any) -> dict[str, Any]:
    made = to_tree(explain(Question(pod, objects, **more)))
    assert json.loads(json.dumps(made)) == made
    return made


def test_a_rejected_pod() -> None:
    found = tree(
        make_pod("p", cpu="2"),
        make_node("n", cpu="1"),
        waiting=Waiting(
            "unschedulable", attempts=3, since=0.0, next=300.0, rejected_by=("NodeResourcesFit",)
        ),
        notes=("read at noon",),
    )
    message = found.pop("message")
    assert message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert found.pop("preemption")["nodesBeyondHelp"] == 1
    assert [each["plugin"] for each in found.pop("events")] == ["NodeResourcesFit"]
    assert found == {
        "apiVersion": "explain.kuberth.dev/v1alpha1",
        "kind": "Explanation",
        "pod": {"namespace": "default", "name": "p"},
        "schedulerName": "default-scheduler",
        "verdict": "rejected",
        "nodes": 1,
        "waiting": {
            "queue": "unschedulable",
            "attempts": 3,
            "since": "1970-01-01T00:00:00Z",
            "nextAttempt": "1970-01-01T00:05:00Z",
            "rejectedBy": ["NodeResourcesFit"],
        },
        "rejected": [
            {
                "plugin": "NodeResourcesFit",
                "code": "UnschedulableAndUnresolvable",
                "reasons": ["Insufficient cpu"],
                "count": 1,
                "nodes": ["n"],
            }
        ],
        "nearest": [{"misses": ["1 cpu short"], "count": 1, "nodes": ["n"]}],
        "proposals": [
            {
                "text": "scale the cpu request of container main from 2 to 1",
                "changes": [
                    {
                        "kind": "ScaleRequest",
                        "container": "main",
                        "resource": "cpu",
                        "before": "2",
                        "after": "1",
                    }
                ],
            }
        ],
        "notes": ["read at noon"],
    }


def test_a_pod_that_fits() -> None:
    found = tree(make_pod("p", cpu="2"), make_node("n"))
    assert found["feasible"] == ["n"]
    scores = found["scores"]
    assert (scores["feasible"], scores["winner"]) == (1, "n")
    (best,) = scores["best"]
    assert best["total"] == sum(best["byPlugin"].values())
