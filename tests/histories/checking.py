"""The checker: says which promises of the store a history breaks.

In: a history. Out: what is broken, each with the smallest part of the history that shows it. It knows the
rules of the Kubernetes API and nothing of the server.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import NamedTuple

from tests.histories.linearizing import Known, UndecidedError, misfits
from tests.histories.recording import ADDED, BOOKMARK, DELETED, Call, Event, History, Version, Watch


@dataclass(frozen=True, slots=True)
class Broken:
    """One promise that was broken, and the lines of the history that show it."""

    rule: str
    what: str
    window: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.rule}: {self.what}", *(f"    {line}" for line in self.window)])


class Change(NamedTuple):
    """A change that took effect: `value` is None for a deletion."""

    revision: int
    key: str
    value: str | None
    uid: str


def check(history: History) -> list[Broken]:
    """All that is broken; what makes the rest meaningless is reported alone."""
    broken: list[Broken] = []
    known = _known(history, broken)
    changes = _changes(history, known, broken)
    if broken:
        return broken
    return [
        *_check_orders(history, known),
        *_check_revisions(history),
        *_check_lists(history, changes),
        *_check_watches(history, changes),
    ]


# What took effect


def _known(history: History, broken: list[Broken]) -> Known:
    versions: dict[str, Version] = {}
    deletions: dict[str, int] = {}
    for version, source in _seen(history):
        first = versions.setdefault(version.value, version)
        if first != version:
            broken.append(Broken("one version", f"{first} is also {version}", (source,)))
    for watch in history.watches:
        for event in watch.events:
            if event.kind == DELETED:
                first_revision = deletions.setdefault(event.version.uid, event.version.revision)
                if first_revision != event.version.revision:
                    what = (
                        f"{event.version.key} was deleted at {first_revision} and at {event.version.revision}"
                    )
                    broken.append(Broken("one version", what, (str(watch), str(event))))
    return Known(versions, deletions, complete=_saw_all(history, versions))


def _saw_all(history: History, versions: dict[str, Version]) -> bool:
    """Whether watches of each kind, one after the other, saw every change since the first call."""
    first = min(history.calls, key=lambda call: call.began, default=None)
    last: dict[str, int] = {}
    for version in versions.values():
        kind = version.key.split("/")[0] + "/"
        last[kind] = max(last.get(kind, 0), version.revision)
    for kind, until in last.items():
        reached = first.revision if first is not None else 0
        for watch in sorted(history.watches, key=lambda watch: watch.since):
            if watch.prefix == kind and watch.events and watch.since <= reached:
                reached = max(reached, watch.events[-1].version.revision)
        if reached < until:
            return False
    return bool(first and first.verb == "list")


def _seen(history: History) -> Iterator[tuple[Version, str]]:
    for call in history.calls:
        for version in call.versions:
            yield version, str(call)
    for watch in history.watches:
        for event in watch.events:
            if event.kind not in (DELETED, BOOKMARK):
                yield event.version, f"{watch}: {event}"


def _changes(history: History, known: Known, broken: list[Broken]) -> list[Change]:
    events = (event for watch in history.watches for event in watch.events)
    key_of = {event.version.uid: event.version.key for event in events}
    found = [Change(each.revision, each.key, each.value, each.uid) for each in known.versions.values()]
    found += [Change(at, key_of[uid], None, uid) for uid, at in known.deletions.items()]
    found.sort(key=lambda change: change.revision)
    for one, other in pairwise(found):
        if one.revision == other.revision:
            broken.append(Broken("one change a revision", f"{one} and {other}"))
    return found


# Calls


def _check_orders(history: History, known: Known) -> Iterator[Broken]:
    by_key: dict[str, list[Call]] = defaultdict(list)
    keys = {call.key for call in history.calls if call.verb != "list"}
    for call in history.calls:
        if call.verb != "list":
            by_key[call.key].append(call)
        elif call.status == 200:
            there = {version.key: version for version in call.versions}
            for key in keys:
                if key.startswith(call.key):
                    versions = (there[key],) if key in there else ()
                    by_key[key].append(replace(call, key=key, versions=versions))
    for key, calls in sorted(by_key.items()):
        try:
            left = misfits(calls, known)
        except UndecidedError:
            yield Broken("undecided", f"the calls on {key} have too many orders")
            continue
        if left:
            window = _around(calls, left)
            yield Broken("linearizable", f"no order of the calls on {key} explains the answers", window)


def _around(calls: Sequence[Call], left: Sequence[Call]) -> tuple[str, ...]:
    """The calls that fit nowhere, and all since the last write that was answered before."""
    ended = max(call.ended for call in left)
    answered = [call for call in calls if call.writes and call.status in (200, 201)]
    last = max(
        (call.began for call in answered if call.ended < min(each.began for each in left)), default=0.0
    )
    shown = [call for call in calls if last <= call.began <= ended]
    shown += [call for call in calls if call.began < last and call.unknown and call.writes]
    shown.sort(key=lambda call: call.began)
    return tuple(f"{'>' if call in left else ' '} {call}" for call in shown[-30:])


def _check_revisions(history: History) -> Iterator[Broken]:
    """In real time, a write has a higher revision than all before it, and a list at least the highest."""
    answered = [call for call in history.calls if call.status in (200, 201) and _revision(call)]
    by_end = sorted(answered, key=lambda call: call.ended)
    ends, highest = [call.ended for call in by_end], list[Call]()
    for call in by_end:
        highest.append(call if not highest or _revision(call) > _revision(highest[-1]) else highest[-1])
    for call in answered:
        before = bisect_right(ends, call.began)
        if not before or ends[before - 1] >= call.began:
            continue
        floor = highest[before - 1]
        if _revision(call) < _revision(floor) + call.writes:
            what = f"{_revision(call)} follows {_revision(floor)}"
            yield Broken("revisions grow", what, (str(floor), str(call)))


def _revision(call: Call) -> int:
    if call.verb == "list":
        return call.revision
    return call.versions[0].revision if call.writes and call.versions else 0


def _check_lists(history: History, changes: Sequence[Change]) -> Iterator[Broken]:
    may_be_deleted = {call.key for call in history.calls if call.verb == "delete"}
    for call in history.calls:
        if call.verb != "list" or call.status != 200:
            continue
        state = _state_at(changes, call.revision, call.key)
        listed = {version.key: version for version in call.versions}
        if len(listed) < len(call.versions):
            yield Broken(
                "an object is in a list once", f"{len(call.versions)} are {len(listed)}", (str(call),)
            )
        for key in sorted(state.keys() | listed.keys()):
            expected = state.get(key)
            found = listed[key].revision if key in listed else None
            if found == (expected.revision if expected else None):
                continue
            # A deletion that no watch saw has no known revision; the order of the calls judges it.
            if found is None and key in may_be_deleted and not _deleted_later(changes, expected):
                continue
            what = f"at {call.revision}, {key} was {expected}, not {listed.get(key)}"
            yield Broken("a list is the state at its revision", what, (str(call),))


def _state_at(changes: Sequence[Change], revision: int, prefix: str) -> dict[str, Change]:
    state = {}
    for change in changes:
        if change.revision > revision:
            break
        if change.key.startswith(prefix):
            state[change.key] = change
    return {key: change for key, change in state.items() if change.value is not None}


def _deleted_later(changes: Iterable[Change], present: Change | None) -> bool:
    """Whether the object is known to have been there after this version."""
    return any(
        present is not None and change.uid == present.uid and change.revision > present.revision
        for change in changes
    )


# Watches


def _check_watches(history: History, changes: Sequence[Change]) -> Iterator[Broken]:
    begun = {call.value: call.began for call in history.calls if call.value}
    for watch in history.watches:
        if watch.expired and history.keeps_all:
            yield Broken("a watch resumes", f"{watch} was refused as too old, but all changes are kept")
        yield from _check_watch(watch, changes, begun)


def _check_watch(watch: Watch, changes: Sequence[Change], begun: dict[str, float]) -> Iterator[Broken]:
    rule, last, before = "a watch has no gaps", watch.since, ""
    expected = [change for change in changes if change.key.startswith(watch.prefix)]
    revisions = [change.revision for change in expected]
    for event in watch.events:
        version = event.version
        bookmark = event.kind == BOOKMARK
        if version.revision < last + (not bookmark):
            what = f"an event at {version.revision} follows {last}"
            yield Broken(rule, what, (str(watch), before, str(event)))
            return
        missed = expected[
            bisect_right(revisions, last) : bisect_right(revisions, version.revision - (not bookmark))
        ]
        if missed:
            yield Broken(rule, f"{missed[0]} is missing", (str(watch), before, str(event)))
            return
        if not bookmark and (why := _wrong(event, expected, revisions, begun)):
            yield Broken("a watch shows what happened", why, (str(watch), before, str(event)))
            return
        last, before = version.revision, str(event)
    missed = expected[bisect_right(revisions, last) : bisect_right(revisions, watch.must_reach)]
    if missed:
        yield Broken(rule, f"{missed[0]} never came", (str(watch), before))


def _wrong(
    event: Event, expected: Sequence[Change], revisions: Sequence[int], begun: dict[str, float]
) -> str:
    version = event.version
    at = bisect_right(revisions, version.revision) - 1
    change = expected[at] if at >= 0 else None
    if change is None or change.revision != version.revision or change.key != version.key:
        return f"nothing is known to have happened at {version.revision}"
    if begun.get(version.value, inf) > event.at:
        return f"{version.value} was not written yet"
    old = next((each for each in reversed(expected[:at]) if each.key == version.key), None)
    there = old is not None and old.value is not None
    if event.kind == DELETED:
        # A version that no answer and no other event showed has no known revision.
        if (old is None or old.value != version.value) and any(
            each.value == version.value for each in expected
        ):
            return f"the deleted object was {old}"
    elif (event.kind == ADDED) == there and not _may_hide_deletion(event, old):
        return f"the object was {old}"
    return ""


def _may_hide_deletion(event: Event, old: Change | None) -> bool:
    """A deletion that no watch saw lies between two creations."""
    return event.kind == ADDED and old is not None and old.uid != event.version.uid
