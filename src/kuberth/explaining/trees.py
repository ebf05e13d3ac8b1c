"""An explanation as JSON: a documented shape that only grows within its version.

In: an `Explanation`. Out: a tree of plain values; docs/explain.md describes it field by field.
"""

from __future__ import annotations

import datetime
from typing import Any, Final

import msgspec

from kuberth.explaining.explanation import Explanation
from kuberth.explaining.question import Waiting

API_VERSION: Final = "explain.kuberth.dev/v1alpha1"
KIND: Final = "Explanation"


def to_tree(explanation: Explanation) -> dict[str, Any]:
    """The explanation as a tree; empty fields are left out."""
    namespace, _, name = explanation.pod.rpartition("/")
    tree: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "pod": {"namespace": namespace, "name": name},
        "schedulerName": explanation.profile,
        "verdict": explanation.verdict,
        "nodes": explanation.nodes,
        "node": explanation.node,
        "message": explanation.message,
        "waiting": None if explanation.waiting is None else _waiting(explanation.waiting),
        "nominated": explanation.nominated,
        "missing": [
            {"kind": each.kind, "name": each.name, "text": each.text} for each in explanation.missing
        ],
        "feasible": explanation.answer.feasible,
        "rejected": explanation.rejected,
        "nearest": explanation.near,
        "preemption": explanation.preemption,
        "events": [
            {"plugin": plugin, "events": events} for plugin, events in (explanation.events or {}).items()
        ],
        "proposals": [{"text": each.text, "changes": each.edits} for each in explanation.proposals],
        "scores": explanation.scores,
        "notes": explanation.notes,
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(tree))
    return {key: value for key, value in plain.items() if value not in (None, [], "")}


def _waiting(waiting: Waiting) -> dict[str, Any]:
    tree = {
        "queue": waiting.queue,
        "attempts": waiting.attempts,
        "since": _stamp(waiting.since),
        "nextAttempt": _stamp(waiting.next),
        "rejectedBy": list(waiting.rejected_by),
        "node": waiting.node or None,
        "heldBy": [
            {"plugin": hold.plugin, "since": _stamp(hold.since), "until": _stamp(hold.until)}
            for hold in waiting.held_by
        ]
        or None,
    }
    return {key: value for key, value in tree.items() if value is not None}


def _stamp(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
