"""Prints stories and universes for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tests.universe.parts import Universe

Tree = Mapping[str, Any]
SHOWN = ("Node", "PersistentVolumeClaim", "Pod", "ResourceClaim")


def universe_lines(universe: Universe) -> Iterator[str]:
    """A universe: its settings, nodes, steps and faults."""
    settings = {name: value for name, value in asdict(universe).items() if not isinstance(value, tuple)}
    yield ", ".join(f"{name} {value}" for name, value in settings.items())
    for node in universe.nodes:
        yield f"node {node['metadata']['name']}: {_short(node)}"
    for each in universe.objects:
        yield f"{each['kind']} {each['metadata']['name']}: {_short(each)}"
    for step in universe.steps:
        yield f"{step.at:9.3f} s  {step.verb} {step.name} {_short(step.tree)}".rstrip()
    for fault in universe.faults:
        what = " ".join(filter(None, (fault.kind, fault.subject, fault.replica, *fault.outcomes)))
        yield f"{fault.start:9.3f} s  fault until {fault.end:.3f} s: {what} ({fault.share:.0%})"


def story_lines(story: Sequence[Tree]) -> Iterator[str]:
    """A story, one line per entry."""
    for entry in story:
        yield f"{entry['at']:9.3f} s  {entry.get('by', ''):15} {_what(entry)}"


def _what(entry: Tree) -> str:
    match entry["entry"]:
        case "write":
            return f"writes {entry['kind']} {entry['key']} at {entry['revision']}: {_state(entry['object'])}"
        case "decision":
            return f"places {entry['key']} on {entry['node']}, has seen {_seen(entry)}"
        case "undone":
            return f"gives up {entry['key']} on {entry['node']}"
        case "no node":
            return f"finds no node for {entry['key']}, has seen {_seen(entry)}"
        case "fault":
            return f"fault: {entry['fault']}: {entry['what']}"
        case "process" | "error":
            return f"{entry['entry']}: {entry['what']}"
        case "books":
            return f"keeps {_books(entry)}"
        case "lease":
            return f"reads that {entry['holder']} leads"
        case "activated":
            return f"activates {entry['key']}"
        case "log":
            return f"logs: {entry['what']} {entry.get('about', '')} {entry.get('cause', '')}".rstrip()
        case "end":
            return f"end: {entry['leader']}"
        case other:
            return str(other)


def _books(entry: Tree) -> str:
    """The pods of each queue, and what is assumed and in flight."""
    queues = [
        f"{name} {' '.join(each['key'] for each in pods)}" for name, pods in entry["queues"].items() if pods
    ]
    counts = [f"{len(entry[name])} {name}" for name in ("in flight", "assumed", "nominations") if entry[name]]
    return ", ".join([*queues, *counts]) or "no pending pod"


def _seen(entry: Tree) -> str:
    return ", ".join(
        f"{kind} {revision}" for kind, revision in sorted(entry["seen"].items()) if kind in SHOWN
    )


def _state(tree: Tree | None) -> str:
    if tree is None:
        return "gone"
    spec, status, found = tree.get("spec") or {}, tree.get("status") or {}, []
    for name, value in (
        ("on", spec.get("nodeName")),
        ("nominated for", status.get("nominatedNodeName")),
        ("deleted at", tree["metadata"].get("deletionTimestamp")),
        ("gates", spec.get("schedulingGates")),
        ("holder", spec.get("holderIdentity")),
        ("phase", status.get("phase")),
        ("volume", spec.get("volumeName")),
        ("claim", (spec.get("claimRef") or {}).get("name")),
        ("allocation", status.get("allocation")),
        ("for", [each["name"] for each in status.get("reservedFor", ())]),
        ("selected", tree["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node")),
    ):
        if value:
            found.append(f"{name} {value}")
    conditions = [f"{each['type']}={each['status']}" for each in status.get("conditions", ())]
    return ", ".join(found + conditions)


def _short(tree: Tree) -> str:
    parts = {
        "labels": tree.get("metadata", {}).get("labels"),
        **tree.get("spec", {}),
        **tree.get("status", {}),
    }
    parts |= {name: value for name, value in tree.items() if name not in ("metadata", "spec", "status")}
    return str({name: value for name, value in parts.items() if value})
