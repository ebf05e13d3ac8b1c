"""What clients did and saw: calls with their answers, and watches with their events.

In: nothing. Out: plain records with monotonic times, which the checker reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"


class Version(NamedTuple):
    """One version of an object as an answer or an event showed it. Every write has a value of its own."""

    key: str
    uid: str
    value: str
    revision: int


@dataclass(slots=True)
class Call:
    """One request. Without an answer `ended` is infinite and `status` 0."""

    client: str
    verb: str
    key: str
    """`kind/namespace/name`; of a list, the start that all its keys have."""
    began: float
    ended: float = inf
    value: str = ""
    """What a write writes."""
    expects: int = 0
    """The resourceVersion that a write requires; 0 for any."""
    status: int = 0
    versions: tuple[Version, ...] = ()
    revision: int = 0
    """The revision of a list."""

    @property
    def unknown(self) -> bool:
        """Whether it may have taken effect without saying so."""
        return self.status == 0 or self.status >= 500

    @property
    def writes(self) -> bool:
        return self.verb in ("create", "update", "patch", "delete")

    def __str__(self) -> str:
        ended = "no answer" if self.ended == inf else f"{self.ended:.4f}"
        wanted = f" if {self.expects}" if self.expects else ""
        value = f" {self.value}" if self.value else ""
        at = f" at {self.revision}" if self.revision else ""
        found = ", ".join(f"{each.key} {each.value} ({each.revision})" for each in self.versions)
        answer = f"{self.status}{at} {found}".rstrip()
        return f"{self.began:.4f} - {ended}  {self.client} {self.verb} {self.key}{value}{wanted}: {answer}"


class Event(NamedTuple):
    """One event of a watch. A bookmark's version has a revision only."""

    kind: str
    version: Version
    at: float

    def __str__(self) -> str:
        version = self.version
        return f"{self.at:.4f}  {self.kind} {version.key} {version.value} ({version.revision})"


@dataclass(slots=True)
class Watch:
    """One watch, from its revision to its end."""

    client: str
    prefix: str
    since: int
    began: float
    events: list[Event] = field(default_factory=list)
    expired: bool = False
    """Whether the server said that this revision is too old."""
    must_reach: int = 0
    """A revision that it had time to deliver."""

    def __str__(self) -> str:
        return f"{self.client} watch {self.prefix} since {self.since}, begun at {self.began:.4f}"


@dataclass(slots=True)
class History:
    """All that one run recorded."""

    calls: list[Call] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)
    faults: list[tuple[float, str]] = field(default_factory=list)
    keeps_all: bool = True
    """Whether the store keeps all changes of a run, so that no watch may be refused."""
