"""The cluster of a universe: an API in memory that writes down every change, and serves its own past.

In: writes, each with the name of its sender. Out: entries of the story, and lists as they were at an earlier
revision.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kuberth.api.kinds import REGISTRY
from kuberth.api.wire import to_builtins
from kuberth.client.writes import Write
from kuberth.clock import Clock
from kuberth.local.apiserver.verbs.reading import select
from kuberth.local.memory_api import MemoryApi, _matcher, _row_of, _seen_as

NANOSECONDS = 1_000_000_000
MAX_ATTEMPTS: Final = 50
"""How often one pod may be tried at one moment."""


class JumpingClock:
    """Another clock, and how far this one is ahead of it; both may change."""

    def __init__(self, clock: Clock, *, ahead_seconds: float = 0.0) -> None:
        self._clock = clock
        self.ahead_seconds = ahead_seconds

    def now_ns(self) -> int:
        return self._clock.now_ns() + round(self.ahead_seconds * NANOSECONDS)


def matcher(kind: type[Any], field_selector: str) -> Callable[[Any], bool]:
    """Which objects of a kind a list with this selector has."""
    return _matcher(select(_row_of(kind), field_selector=field_selector))


def seen_as(kind: type[Any], obj: Any) -> Any:
    """The object as a list of this kind has it."""
    return _seen_as(kind, obj)


class SpinningError(Exception):
    """A pod is tried again and again while no time passes; raised in a plugin, it makes the pod back off."""


class Story:
    """Everything that happened, in order, as plain JSON trees."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.entries: list[dict[str, Any]] = []
        self._attempts: Counter[tuple[float, str]] = Counter()
        self.give_up: Callable[[], object] = lambda: None
        """Ends the universe before its time."""
        self.look: Callable[[], None] = lambda: None
        """Writes down what the schedulers keep."""

    @property
    def now(self) -> float:
        return round(self._clock.now_ns() / NANOSECONDS, 6)

    def note(self, entry: str, **fields: Any) -> None:
        self.entries.append({"entry": entry, "at": self.now, **fields})

    def note_attempt(self, entry: str, **fields: Any) -> None:
        """As `note`, for an attempt to place a pod."""
        self.note(entry, **fields)
        attempt = (self.now, fields["uid"])
        self._attempts[attempt] += 1
        if self._attempts[attempt] > MAX_ATTEMPTS:
            what = f"{fields['key']} is tried more than {MAX_ATTEMPTS} times at one moment"
            self.note("error", by=fields["by"], what=what)
            self.give_up()
            raise SpinningError(what)


class Cluster(MemoryApi):
    """As `MemoryApi`, with a story."""

    def __init__(self, story: Story, *, clock: Clock, feature_gates: dict[str, bool]) -> None:
        self.story = story
        self._sender: dict[str, Any] = {"by": "users"}
        self._past: dict[str, list[tuple[int, str, Any]]] = defaultdict(list)
        super().__init__(clock=clock, feature_gates=feature_gates)

    @property
    def version(self) -> int:
        return self._version

    @contextmanager
    def sent_by(self, by: str, *, sent: float, late: bool = False) -> Iterator[None]:
        """Writes in this block were sent at this time; `late`: their sender has stopped waiting for them."""
        before, self._sender = self._sender, {"by": by, "sent": sent, "late": late}
        try:
            yield
        finally:
            self._sender = before

    def carry_out(self, write: Write, *, by: str, sent: float, late: bool = False) -> Any:
        with self.sent_by(by, sent=sent, late=late):
            return self.write_nowait(write)

    def items_at(self, kind: type[Any], version: int) -> Sequence[Any]:
        """The objects of a kind at an earlier version."""
        found: dict[str, Any] = {}
        for revision, key, obj in self._past[REGISTRY.of(kind).resource_id]:
            if revision > version:
                break
            if obj is None:
                found.pop(key, None)
            else:
                found[key] = obj
        return tuple(found.values())

    def _record_change(self, table: Any, key: str, old: Any, new: Any) -> None:
        super()._record_change(table, key, old, new)
        info = REGISTRY.of(type(old if new is None else new))
        self._past[info.resource_id].append((self._version, key, new))
        if info.kind != "Event":
            tree = None if new is None else to_builtins(new)
            self.story.note(
                "write", **self._sender, revision=self._version, kind=info.kind, key=key, object=tree
            )
