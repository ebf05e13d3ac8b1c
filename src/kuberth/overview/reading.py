"""Reads the stream in a client: server-sent events to state.

In: bytes. Out: the resulting state, for `kuberth top` and for programs.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from kuberth.overview.overview import KEPT_ROWS


class EventReader:
    """Splits a stream of bytes into events."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[str, Any]]:
        """Add bytes; yields the name and the tree of every event that is complete."""
        *whole, self._rest = (self._rest + data).split(b"\n\n")
        for block in whole:
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line)
            if b"event" in fields and b"data" in fields:
                yield fields[b"event"].decode(), json.loads(fields[b"data"])


class StreamState:
    """The state after all events so far."""

    def __init__(self) -> None:
        self.hello: dict[str, Any] = {}
        self.nodes: dict[str, list[Any]] = {}
        """By name: name, zone, pool, flags, allocatable, requested."""
        self.pods: dict[str, list[Any]] = {}
        """By UID: UID, namespace, name, queue, priority, attempts, since, reason, profile, Permit waits."""
        self.cut: dict[str, int] = {}
        """By queue: number of pods that are not in `pods`."""
        self.queues: dict[str, int] = {}
        self.throughput: deque[list[Any]] = deque(maxlen=KEPT_ROWS)
        """Second, scheduled, unschedulable, error, p50, p99, pending pods."""

    @property
    def complete(self) -> bool:
        """Whether events of every kind have arrived."""
        return bool(self.hello and self.queues) and self._has_throughput

    _has_throughput = False

    def take(self, name: str, tree: Any) -> None:
        """Apply one event; events of unknown names are skipped."""
        if name == "hello":
            self.hello = tree
        elif name == "nodes":
            _apply(self.nodes, tree, tree["gone"])
        elif name == "pods":
            _apply(self.pods, tree, (uid for uid, _where in tree["gone"]))
            self.cut = tree.get("cut", {})
        elif name == "queues":
            self.queues = tree
        elif name == "throughput":
            if tree.get("all"):
                self.throughput.clear()
            self.throughput.extend(tree["rows"])
            self._has_throughput = True

    def tree(self) -> dict[str, Any]:
        """The whole state as one tree of JSON."""
        return {
            "hello": self.hello,
            "queues": self.queues,
            "nodes": list(self.nodes.values()),
            "pods": list(self.pods.values()),
            "cut": self.cut,
            "throughput": list(self.throughput),
        }


def _apply(rows: dict[str, list[Any]], tree: Any, gone: Iterable[str]) -> None:
    if tree.get("all"):
        rows.clear()
    rows.update((row[0], row) for row in tree["set"])
    for key in gone:
        rows.pop(key, None)
