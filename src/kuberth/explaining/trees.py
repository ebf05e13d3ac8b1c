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
        "nominated": None
        if explanation.nominated is None
        else {"node": explanation.nominated.node, "terminating": list(explanation.nominated.terminating)},
        "missing": [
            {"kind": each.kind, "name": each.name, "text": each.text} for each in explanation.missing
        ],
        "feasible": list(explanation.answer.feasible),
        "rejected": [
            {
                "plugin": group.plugin,
                "code": group.code.label,
                "reasons": list(group.reasons),
                "count": len(group.nodes),
                "nodes": list(group.nodes),
            }
            for group in explanation.rejected
        ],
        "nearest": [
            {"misses": list(group.misses), "count": len(group.nodes), "nodes": list(group.nodes)}
            for group in explanation.near
        ],
        "preemption": None
        if explanation.preemption is None
        else {
            "message": explanation.preemption.message,
            "nodesThatCouldHelp": explanation.preemption.nodes_that_could_help,
            "nodesBeyondHelp": explanation.preemption.nodes_beyond_help,
            "nominatedNode": explanation.preemption.nominated_node,
            "victims": list(explanation.preemption.victims),
        },
        "events": [
            {"plugin": plugin, "events": list(events)}
            for plugin, events in (explanation.events or {}).items()
        ],
        "proposals": [
            {"text": proposal.text, "changes": [_change(edit) for edit in proposal.edits]}
            for proposal in explanation.proposals
        ],
        "scores": None if explanation.scores is None else _scores(explanation.scores),
        "notes": list(explanation.notes),
    }
    return {key: value for key, value in tree.items() if value not in (None, [], "")}


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


def _change(edit: Edit) -> dict[str, Any]:
    fields = {field.name: getattr(edit, field.name) for field in dataclasses.fields(edit)}  # type: ignore[arg-type]
    return {"kind": type(edit).__name__, **fields}


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
