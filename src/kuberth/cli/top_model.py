"""The state of `kuberth top`, without terminal and network.

In: names of keys, and the state from the stream. Out: the rows of the view, and the requests to make.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kuberth.overview.reading import StreamState

VIEWS: Final = ("nodes", "queue", "pods", "throughput")
VIEW: Final = "queue"
"""The first one."""
QUEUES: Final = ("active", "backoff", "unschedulable", "gated", "inflight", "permit")
_PAGE: Final = 10
_ORDER: Final = {queue: place for place, queue in enumerate(QUEUES)}


class ReasonCount(NamedTuple):
    """How many pods are pending in a queue for the same reason."""

    queue: str
    reason: str
    pods: int


def share(row: Sequence[Any], resource: int) -> float:
    """Requested part of a node's allocatable amount."""
    offered, asked = row[4][resource], row[5][resource]
    return asked / offered if offered else float(asked > 0)


SORTS: Final[Mapping[str, Mapping[str, Callable[[Sequence[Any]], Any]]]] = {
    "nodes": {
        "cpu": lambda row: (-share(row, 0), row[0]),
        "memory": lambda row: (-share(row, 1), row[0]),
        "pods": lambda row: (-row[5][2], row[0]),
        "name": lambda row: row[0],
    },
    "pods": {
        "since": lambda row: (row[6] or float("inf"), row[1], row[2]),
        "name": lambda row: (row[1], row[2]),
        "queue": lambda row: (_ORDER.get(row[3], len(_ORDER)), row[6], row[2]),
        "priority": lambda row: (-row[4], row[6], row[2]),
        "attempts": lambda row: (-row[5], row[6], row[2]),
    },
}
"""By view: the columns that it can be sorted by, with the keys of its rows; the first one is the default."""


class TopModel:
    """The state of the screen."""

    def __init__(self, seen: StreamState, *, view: str = VIEW) -> None:
        self.seen = seen
        self.view = view
        self.filter = ""
        self.typing = False
        """Whether keys go to the filter."""
        self.help = False
        self.detail: list[str] | None = None
        """Lines about one pod, shown instead of the view."""
        self.selected = 0
        """The selected row of the view, or the first shown line of the detail."""
        self.ended = False
        self.wanted: tuple[str, str] | None = None
        """Namespace and name of the pod whose history should be requested."""
        self.sought: str | None = None
        """The text to search for among all pods."""
        self.found: list[list[Any]] = []
        """Placed pods whose names match the filter."""
        self._sorts = {view: next(iter(columns)) for view, columns in SORTS.items()}
        """The column that each view is sorted by."""
        self._backwards = dict.fromkeys(VIEWS, False)

    @property
    def sort(self) -> str:
        """The column that the view is sorted by; empty if it cannot be sorted."""
        return self._sorts.get(self.view, "")

    @property
    def backwards(self) -> bool:
        return self._backwards[self.view]

    # Rows

    def rows(self) -> Sequence[Any]:
        return self.rows_of(self.view)

    def rows_of(self, view: str) -> Sequence[Any]:
        if view == "nodes":
            return self.nodes()
        if view == "pods":
            return self.pods()
        return self.reasons() if view == "queue" else ()

    def nodes(self) -> list[list[Any]]:
        rows = [row for row in self.seen.nodes.values() if self._passes(*row[:3])]
        return self._sorted("nodes", rows)

    def pods(self) -> list[list[Any]]:
        rows = [row for row in self.seen.pods.values() if self._passes(f"{row[1]}/{row[2]}", row[3], row[7])]
        rows = self._sorted("pods", rows)
        pending = {(row[1], row[2]) for row in rows}
        return rows + [row for row in self.found if (row[1], row[2]) not in pending]

    def reasons(self) -> list[ReasonCount]:
        """Why pods are pending, the most frequent reason first."""
        numbers = Counter(
            (row[3], row[7])
            for row in self.seen.pods.values()
            if self._passes(row[1], row[2], row[3], row[7])
        )
        counts = [ReasonCount(queue, reason, number) for (queue, reason), number in numbers.items()]
        return sorted(counts, key=lambda each: (-each.pods, each.queue, each.reason))

    def _sorted(self, view: str, rows: list[list[Any]]) -> list[list[Any]]:
        return sorted(rows, key=SORTS[view][self._sorts[view]], reverse=self._backwards[view])

    def _passes(self, *texts: str) -> bool:
        return not self.filter or any(self.filter in text.lower() for text in texts)

    # Keys

    def press(self, key: str) -> None:
        if self.typing:
            self._type(key)
        elif self.help:
            self.help = False
            self.ended = key == "q"
        elif key in ("q", "?"):
            self.ended, self.help = key == "q", key == "?"
        elif self.detail is not None:
            if key in ("escape", "enter", "backspace", "left"):
                self.detail, self.selected = None, 0
            else:
                self._step(key)
        else:
            self._command(key)

    def _command(self, key: str) -> None:
        if key.isdecimal() and 1 <= int(key) <= len(VIEWS):
            self._show(VIEWS[int(key) - 1])
        elif key in ("tab", "right", "left"):
            step = -1 if key == "left" else 1
            self._show(VIEWS[(VIEWS.index(self.view) + step) % len(VIEWS)])
        elif key in ("n", "u", "p", "t"):
            self._show({"n": "nodes", "u": "queue", "p": "pods", "t": "throughput"}[key])
        elif key == "s" and self.view in SORTS:
            columns = [*SORTS[self.view]]
            self._sorts[self.view] = columns[(columns.index(self.sort) + 1) % len(columns)]
            self.selected = 0
        elif key == "r":
            self._backwards[self.view] = not self._backwards[self.view]
        elif key == "/":
            self.typing = True
        elif key == "escape":
            self.filter, self.found, self.selected = "", [], 0
        elif key == "enter":
            self._open()
        else:
            self._step(key)

    def _show(self, view: str) -> None:
        if view != self.view:
            self.view, self.selected = view, 0

    def _open(self) -> None:
        rows = self.rows()
        if not rows:
            return
        row = rows[min(self.selected, len(rows) - 1)]
        if self.view == "pods":
            self.wanted = row[1], row[2]
        elif self.view == "queue":
            self.filter = (row.reason or row.queue).lower()
            self._show("pods")

    def _step(self, key: str) -> None:
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -_PAGE, "pagedown": _PAGE, " ": _PAGE}
        last = len(self.rows() if self.detail is None else self.detail) - 1
        if key in steps:
            self.selected += steps[key]
        elif key in ("home", "g"):
            self.selected = 0
        elif key in ("end", "G"):
            self.selected = last
        self.selected = max(0, min(self.selected, last))

    def _type(self, key: str) -> None:
        if key == "enter":
            self.typing = False
            if self.view == "pods" and self.filter:
                self.sought = self.filter
        elif key == "escape":
            self.typing, self.filter, self.found = False, "", []
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1:
            self.filter += key.lower()
        self.selected = 0

    # Answers

    def add_found(self, tree: Mapping[str, Any]) -> None:
        """Add the placed pods of a search result; pending pods are known already."""
        self.found = [
            ["", namespace, name, "placed", 0, 0, 0.0, f"on {node}", "", []]
            for namespace, name, queue, node in tree.get("pods", ())
            if queue == "placed"
        ]

    def show_detail(self, lines: list[str]) -> None:
        self.detail, self.selected = lines, 0
