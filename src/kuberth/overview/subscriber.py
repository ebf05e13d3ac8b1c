"""One subscriber of the stream: which rows changed since the last event that was sent to it.

In: the changes of every tick. Out: server-sent events. A subscriber stores the names of changed rows, not
their values, so that a slow client receives each row once, with its latest values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol

import msgspec

from kuberth.overview.node_rows import NodeChanges, NodeRows
from kuberth.overview.pace import KEPT_ROWS, PaceLine, PaceRows
from kuberth.overview.waiting import PodChanges, QueueView

MOST_GONE: Final = 5000
"""When more pods than this are gone, the whole table is sent instead of the names."""


class StreamSource(Protocol):
    """The state that events are made from."""

    @property
    def nodes(self) -> NodeRows: ...
    @property
    def waiting(self) -> QueueView: ...
    @property
    def pace(self) -> PaceRows: ...
    def hello(self) -> dict[str, Any]: ...


class Subscriber:
    """Collects changes until they are sent. The first events contain everything."""

    def __init__(self, source: StreamSource) -> None:
        self._source = source
        self.has_changes = asyncio.Event()
        self._greet = self._all_nodes = self._all_pods = self._all_pace = True
        self._nodes: set[str] = set()
        self._nodes_gone: set[str] = set()
        self._pods: set[str] = set()
        self._pods_gone: dict[str, str] = {}
        self._pace: list[PaceLine] = []
        self._counts: dict[str, int] | None = None
        self._cut: dict[str, int] = {}
        self.has_changes.set()

    def record(self, nodes: NodeChanges, pods: PodChanges, pace: Iterable[PaceLine]) -> None:
        if nodes.columns:
            self._greet = self._all_nodes = True
        self._nodes.difference_update(nodes.gone)
        self._nodes.update(nodes.changed)
        self._nodes_gone.difference_update(nodes.changed)
        self._nodes_gone.update(nodes.gone)
        self._pods.difference_update(pods.gone)
        self._pods.update(pods.changed)
        for uid in pods.changed:
            self._pods_gone.pop(uid, None)
        self._pods_gone |= pods.gone
        if len(self._pods_gone) > MOST_GONE:
            self._all_pods = True
            self._pods_gone.clear()
        self._pace.extend(pace)
        del self._pace[:-KEPT_ROWS]
        changed = nodes.columns or nodes.changed or nodes.gone or pods.changed or pods.gone or self._pace
        # The number of pods that are left out of a queue follows from its length.
        if changed or self._source.waiting.counts() != self._counts:
            self.has_changes.set()

    def take(self) -> list[bytes]:
        """The events of all recorded changes, which are then forgotten."""
        self.has_changes.clear()
        return list(self._events())

    def _events(self) -> Iterator[bytes]:
        if self._greet:
            self._greet = False
            yield event("hello", self._source.hello())
        if self._all_nodes or self._nodes or self._nodes_gone:
            yield event("nodes", self._take_nodes())
        if (counts := self._source.waiting.counts()) != self._counts:
            self._counts = counts
            yield event("queues", counts)
        if self._all_pods or self._pods or self._pods_gone or self._source.waiting.cut() != self._cut:
            yield event("pods", self._take_pods())
        if self._all_pace or self._pace:
            yield event("pace", self._take_pace())

    def _take_nodes(self) -> dict[str, Any]:
        rows = self._source.nodes.rows
        if self._all_nodes:
            tree: dict[str, Any] = {"set": list(rows.values()), "gone": [], "all": True}
        else:
            tree = {"set": [rows[name] for name in sorted(self._nodes)], "gone": sorted(self._nodes_gone)}
        self._all_nodes = False
        self._nodes.clear()
        self._nodes_gone.clear()
        return tree

    def _take_pods(self) -> dict[str, Any]:
        waiting = self._source.waiting
        if self._all_pods:
            tree: dict[str, Any] = {"set": list(waiting.rows.values()), "gone": [], "all": True}
        else:
            tree = {
                "set": [waiting.rows[uid] for uid in sorted(self._pods)],
                "gone": list(self._pods_gone.items()),
            }
        self._cut = waiting.cut()
        if self._cut:
            tree["cut"] = self._cut
        self._all_pods = False
        self._pods.clear()
        self._pods_gone.clear()
        return tree

    def _take_pace(self) -> dict[str, Any]:
        if self._all_pace:
            tree: dict[str, Any] = {"rows": list(self._source.pace.rows), "all": True}
        else:
            tree = {"rows": self._pace}
        self._all_pace = False
        self._pace = []
        return tree


def event(name: str, tree: dict[str, Any]) -> bytes:
    """One server-sent event; JSON on one line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(tree))
