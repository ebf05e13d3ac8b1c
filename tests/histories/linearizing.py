"""Whether the calls on one object can be put in an order that a single copy of it would have answered.

In: the calls on one key, and the revisions that are known of values. Out: the calls that fit into no order.
The search is that of Wing and Gong with the memory of Lowe: try every call that may come next, and never
visit the same set of calls with the same state twice. A write without an answer may come late, or never.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, NamedTuple

from tests.histories.recording import Call, Version


class State(NamedTuple):
    """An object, or None; `revision` is 0 where no answer and no event said it."""

    value: str | None = None
    revision: int = 0
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What answers and events said about writes."""

    versions: Mapping[str, Version]
    """By value."""
    deletions: Mapping[str, int]
    """The revision of the deletion, by uid."""
    complete: bool = False
    """Whether a watch saw all changes, so that a write that no watch saw took no effect."""

    def may_have_happened(self, call: Call) -> bool:
        return not self.complete or call.verb == "delete" or call.value in self.versions


class UndecidedError(Exception):
    """There are too many orders to try."""


MOST_STATES: Final = 300_000


def step(call: Call, state: State, known: Known) -> State | None:
    """The state after a call that had this answer; None where the answer does not fit the state."""
    there = state.value is not None
    if call.verb in ("get", "list"):
        return state if _reads(call, state) else None
    if call.status == 404:
        return None if there else state
    if call.status == 409:
        if call.verb == "create":
            return state if there else None
        return state if there and not _certainly(call, state) else None
    if call.verb == "create":
        return None if there else _written(call, state, known)
    if not there or not _possibly(call, state):
        return None
    if call.verb != "delete":
        return _written(call, state, known)
    revision = known.deletions.get(state.uid, 0)
    if not revision and known.complete:
        return None
    if revision and revision <= state.revision:
        return None
    return State(revision=revision or state.revision)


def _reads(call: Call, state: State) -> bool:
    if not call.versions:
        return state.value is None
    seen = call.versions[0]
    return seen.value == state.value and state.revision in (0, seen.revision)


def _possibly(call: Call, state: State) -> bool:
    return not call.expects or state.revision in (0, call.expects)


def _certainly(call: Call, state: State) -> bool:
    return not call.expects or state.revision == call.expects


def _written(call: Call, state: State, known: Known) -> State | None:
    version = known.versions.get(call.value)
    if version is None:
        return State(call.value, 0, state.uid)
    if version.revision <= state.revision:
        return None
    if call.verb != "create" and state.uid and version.uid != state.uid:
        return None
    return State(call.value, version.revision, version.uid)


def misfits(calls: Sequence[Call], known: Known) -> list[Call]:
    """The calls of the shortest part of this history that has no order; none if the whole has one."""
    calls = [
        call for call in calls if _matters(call) and not (call.unknown and not known.may_have_happened(call))
    ]
    if not _search(calls, known):
        return []
    # A part of a history that has an order has one too, so the first moment without one can be halved down.
    ends = sorted({call.ended for call in calls if call.ended < inf})
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        if _search(_until(calls, ends[middle]), known):
            high = middle
        else:
            low = middle + 1
    return _search(_until(calls, ends[low]), known)


def _matters(call: Call) -> bool:
    if call.unknown:
        return call.writes
    # Without a precondition, a conflict says that others were faster; a refusal for load says nothing.
    return call.status != 429 and not (call.status == 409 and call.verb == "patch" and not call.expects)


def _until(calls: Sequence[Call], moment: float) -> list[Call]:
    """The history as it was at a moment: later answers are not there yet."""
    begun = (call for call in calls if call.began <= moment)
    cut = (
        call if call.ended <= moment else replace(call, ended=inf, status=0, versions=()) for call in begun
    )
    return [call for call in cut if _matters(call)]


def _search(calls: Sequence[Call], known: Known) -> list[Call]:
    """Nothing if there is an order; else the answered calls that the longest order leaves out."""
    calls = sorted(calls, key=lambda call: call.began)
    answered = sum(1 << at for at, call in enumerate(calls) if not call.unknown)
    best, visited = 0, set()
    stack: list[tuple[int, State]] = [(0, State())]
    while stack:
        done, state = stack.pop()
        if done & answered == answered:
            return []
        if (done, state) in visited:
            continue
        visited.add((done, state))
        if len(visited) > MOST_STATES:
            raise UndecidedError
        if (done & answered).bit_count() > (best & answered).bit_count():
            best = done
        for at in reversed(_next(calls, done)):
            after = step(calls[at], state, known)
            if after is not None:
                stack.append((done | 1 << at, after))
    return [call for at, call in enumerate(calls) if not best >> at & 1 and not call.unknown]


def _next(calls: Sequence[Call], done: int) -> list[int]:
    """The calls that may come next: those that began before any other left one had ended."""
    found, first_end = [], inf
    for at, call in enumerate(calls):
        if call.began > first_end:
            break
        if not done >> at & 1:
            found.append(at)
            # A failure says no more than silence: the write may still come.
            first_end = first_end if call.unknown else min(first_end, call.ended)
    return [at for at in found if calls[at].began <= first_end]
