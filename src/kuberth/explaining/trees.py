"""An explanation as JSON: a documented shape that only grows within its version.

In: an `Explanation`. Out: a tree of plain values; docs/explain.md describes it field by field.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Final

from kuberth.explaining.edits import Edit
from kuberth.explaining.explanation import Explanation, ScoreTable
from kuberth.explaining.question import Waiting

API_VERSION: Final = "explain.kuberth.dev/v1alpha1"
KIND: Final = "Explanation"


def to_tree(told: Explanation) -> dict[str, Any]:
    """All of it; what there is nothing to say about is left out."""
    namespace, _, name = told.pod.rpartition("/")
    tree: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "pod": {"namespace": namespace, "name": name},
        "schedulerName": told.profile,
        "verdict": told.verdict,
        "nodes": told.nodes,
        "node": told.node,
        "message": told.message,
        "waiting": None if told.waiting is None else _waiting(told.waiting),
        "feasible": list(told.answer.feasible),
        "rejected": [
            {
                "plugin": group.plugin,
                "code": group.code.label,
                "reasons": list(group.reasons),
                "count": len(group.nodes),
                "nodes": list(group.nodes),
            }
            for group in told.rejected
        ],
        "nearest": [
            {"misses": list(group.misses), "count": len(group.nodes), "nodes": list(group.nodes)}
            for group in told.near
        ],
        "preemption": None
        if told.preemption is None
        else {
            "message": told.preemption.message,
            "nodesThatCouldHelp": told.preemption.nodes_that_could_help,
            "nodesBeyondHelp": told.preemption.nodes_beyond_help,
            "nominatedNode": told.preemption.nominated_node,
            "victims": list(told.preemption.victims),
        },
        "events": [
            {"plugin": plugin, "events": list(events)} for plugin, events in (told.events or {}).items()
        ],
        "proposals": [
            {"text": proposal.text, "changes": [_change(edit) for edit in proposal.edits]}
            for proposal in told.proposals
        ],
        "scores": None if told.scores is None else _scores(told.scores),
        "notes": list(told.notes),
    }
    return {key: value for key, value in tree.items() if value not in (None, [], "")}


def _waiting(waiting: Waiting) -> dict[str, Any]:
    tree = {
        "queue": waiting.queue,
        "attempts": waiting.attempts,
        "since": _stamp(waiting.since),
        "nextAttempt": _stamp(waiting.next),
        "rejectedBy": list(waiting.rejected_by),
    }
    return {key: value for key, value in tree.items() if value is not None}


def _stamp(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _change(edit: Edit) -> dict[str, Any]:
    fields = {field.name: getattr(edit, field.name) for field in dataclasses.fields(edit)}  # type: ignore[arg-type]
    return {"kind": edit.kind, **fields}


def _scores(table: ScoreTable) -> dict[str, Any]:
    return {
        "feasible": table.feasible,
        "winner": table.winner,
        "reason": table.reason,
        "best": [
            {"node": node, "total": total, "byPlugin": dict(zip(table.plugins, row, strict=True))}
            for node, total, row in zip(table.nodes, table.totals, table.scores, strict=True)
        ],
    }
