"""The checker finds planted breaches, and nothing in histories without them."""

from __future__ import annotations

import ast
import sys
from math import inf
from pathlib import Path
from types import ModuleType

import pytest

from tests.histories import checking, linearizing, recording
from tests.histories.checking import check
from tests.histories.recording import ADDED, BOOKMARK, DELETED, MODIFIED, Call, Event, History, Version, Watch

A, B = "configmaps/default/a", "configmaps/default/b"


def version(value: str, revision: int, *, key: str = A, uid: str = "u1") -> Version:
    return Version(key, uid, value, revision)


def call(verb: str, began: float, ended: float = inf, *versions: Version, **fields: object) -> Call:
    """A call that was answered with these versions, or with success."""
    known = {"key": A, "status": {inf: 0}.get(ended, 201 if verb == "create" else 200), **fields}
    return Call(client="c", verb=verb, began=began, ended=ended, versions=versions, **known)  # type: ignore[arg-type]


def created(
    value: str = "x", revision: int = 5, began: float = 1.0, *, key: str = A, uid: str = "u1"
) -> Call:
    seen = version(value, revision, key=key, uid=uid)
    return call("create", began, began + 1, seen, key=key, value=value)


def updated(value: str, revision: int, began: float, *, expects: int = 0) -> Call:
    return call("update", began, began + 1, version(value, revision), value=value, expects=expects)


def listed(revision: int, began: float, *versions: Version) -> Call:
    return call("list", began, began + 1, *versions, key="configmaps/", revision=revision)


def watch(since: int, *events: tuple[str, Version], must_reach: int = 0, expired: bool = False) -> Watch:
    seen = [Event(kind, each, 50.0 + at) for at, (kind, each) in enumerate(events)]
    return Watch("w", "configmaps/", since, 0.5, seen, expired=expired, must_reach=must_reach)


def bookmark(revision: int) -> tuple[str, Version]:
    return BOOKMARK, Version("", "", "", revision)


X, Y, Z = version("x", 5), version("y", 6), version("z", 7)
DELETION = version("y", 7)

FINE: dict[str, tuple[list[Call], list[Watch]]] = {
    "calls in turn": (
        [
            created(),
            call("get", 3, 4, X),
            updated("y", 6, 5, expects=5),
            call("delete", 7, 8),
            call("get", 9, 10, status=404),
        ],
        [watch(4, (ADDED, X), (MODIFIED, Y), (DELETED, DELETION), bookmark(9))],
    ),
    "reads beside a write see either state": (
        [created(), call("update", 3, 9, Y, value="y"), call("get", 4, 5, X), call("get", 6, 7, Y)],
        [],
    ),
    "a write without an answer takes effect late": (
        [created(), call("update", 3, value="y"), call("get", 4, 5, X), call("get", 6, 7, Y)],
        [],
    ),
    "a write without an answer never takes effect": (
        [created(), call("update", 3, value="y"), call("get", 4, 5, X), updated("z", 6, 6, expects=5)],
        [],
    ),
    "a failed write takes effect late": (
        [created(), call("update", 3, 4, value="y", status=500), call("get", 5, 6, X), call("get", 7, 8, Y)],
        [],
    ),
    "a write that no client saw explains a conflict": (
        [created(), call("update", 3, value="y"), call("update", 5, 6, value="z", expects=5, status=409)],
        [],
    ),
    "one of two compare-and-swaps wins": (
        [created(), updated("y", 6, 3, expects=5), call("update", 3, 4, value="z", expects=5, status=409)],
        [],
    ),
    "an object is created again": (
        [
            created(),
            call("delete", 3, 4),
            created("y", 7, 5, uid="u2"),
            listed(6, 3.5),
            listed(7, 7, version("y", 7, uid="u2")),
        ],
        [watch(4, (ADDED, X), (DELETED, version("x", 6)), (ADDED, version("y", 7, uid="u2")))],
    ),
    "an earlier state in a list beside writes": ([created(), updated("y", 6, 3), listed(5, 3.5, X)], []),
}

BREACHES: dict[str, tuple[str, list[Call], list[Watch]]] = {
    "a lost write": ("linearizable", [created(), call("get", 3, 4, status=404)], []),
    "an object twice in a list": ("an object is in a list once", [created(), listed(5, 3, X, X)], []),
    "a lost update": ("linearizable", [created(), updated("y", 6, 3), call("get", 5, 6, X)], []),
    "a stale read": (
        "linearizable",
        [created(), call("update", 3, 9, Y, value="y"), call("get", 4, 5, Y), call("get", 6, 7, X)],
        [],
    ),
    "two compare-and-swaps win": (
        "linearizable",
        [created(), updated("y", 6, 3, expects=5), updated("z", 7, 3, expects=5)],
        [],
    ),
    "two creations win": ("linearizable", [created(), created("y", 6, 1.5, uid="u2")], []),
    "a conflict without a cause": (
        "linearizable",
        [created(), call("update", 3, 4, value="y", expects=5, status=409)],
        [],
    ),
    "a refusal rests on a write that comes later": (
        "linearizable",
        [
            call("create", 1, 9, X, value="x"),
            call("create", 2, 3, value="y", status=409),
            call("get", 4, 5, status=404),
        ],
        [],
    ),
    "a read of what was never written": ("linearizable", [created(), call("get", 3, 4, version("q", 6))], []),
    "a write that a complete watch did not see explains nothing": (
        "linearizable",
        [
            listed(4, 0),
            created(began=1.5),
            call("update", 3, value="y"),
            call("update", 5, 6, value="z", expects=5, status=409),
        ],
        [watch(4, (ADDED, X))],
    ),
    "a lower revision": ("revisions grow", [created(), created("y", 4, 3, key=B, uid="u2")], []),
    "a list of the past": (
        "revisions grow",
        [created(), created("y", 6, 3, key=B, uid="u2"), listed(5, 5, X)],
        [],
    ),
    "one revision for two writes": (
        "one change a revision",
        [created(), created("y", 5, 3, key=B, uid="u2")],
        [],
    ),
    "a version that changes": ("one version", [created(), call("get", 3, 4, version("x", 6))], []),
    "a list that lacks an object": ("a list is the state at its revision", [created(), listed(6, 1.5)], []),
    "a list with a later version": (
        "a list is the state at its revision",
        [created(), call("update", 3, 9, Y, value="y"), listed(5, 4, Y)],
        [],
    ),
    "a list with a deleted object": (
        "a list is the state at its revision",
        [created(), call("delete", 3, 9), listed(6, 4, X)],
        [watch(4, (ADDED, X), (DELETED, version("x", 6)))],
    ),
    "a gap in a watch": (
        "a watch has no gaps",
        [created(), updated("y", 6, 3), updated("z", 7, 5)],
        [watch(4, (ADDED, X), (MODIFIED, Z))],
    ),
    "a gap at the start": ("a watch has no gaps", [created(), updated("y", 6, 3)], [watch(4, (MODIFIED, Y))]),
    "a gap before a bookmark": (
        "a watch has no gaps",
        [created(), updated("y", 6, 3)],
        [watch(4, (ADDED, X), bookmark(6))],
    ),
    "a change that never comes": (
        "a watch has no gaps",
        [created(), updated("y", 6, 3)],
        [watch(4, (ADDED, X), must_reach=6)],
    ),
    "an event twice": ("a watch has no gaps", [created()], [watch(4, (ADDED, X), (ADDED, X))]),
    "an event from before": (
        "a watch has no gaps",
        [created(), updated("y", 6, 3)],
        [watch(5, (ADDED, X), (MODIFIED, Y))],
    ),
    "an event of the wrong kind": (
        "a watch shows what happened",
        [created(), updated("y", 6, 3)],
        [watch(4, (ADDED, X), (ADDED, Y))],
    ),
    "a deletion that shows an older version": (
        "a watch shows what happened",
        [created(), updated("y", 6, 3), call("delete", 5, 6)],
        [watch(4, (ADDED, X), (MODIFIED, Y), (DELETED, version("x", 7)))],
    ),
    "an event before its write": ("a watch shows what happened", [created(began=60)], [watch(4, (ADDED, X))]),
    "a watch that is refused": ("a watch resumes", [created()], [watch(4, expired=True)]),
}


@pytest.mark.parametrize("case", FINE.values(), ids=FINE)
def test_a_good_history_is_accepted(case: tuple[list[Call], list[Watch]]) -> None:
    assert check(History(*case)) == []


@pytest.mark.parametrize("rule, calls, watches", BREACHES.values(), ids=BREACHES)
def test_a_breach_is_found(rule: str, calls: list[Call], watches: list[Watch]) -> None:
    assert rule in [broken.rule for broken in check(History(calls, watches))]


def test_the_window_ends_with_the_first_answer_that_fits_nowhere() -> None:
    many = [updated(f"v{at}", 6 + at, 3.0 + 2 * at) for at in range(20)]
    stale = call("get", 21, 22, version("v3", 9))
    (broken,) = check(History([created(), *many, stale]))
    assert broken.window[-1] == f"> {stale}"
    assert len(broken.window) <= 3


def test_a_watch_may_be_refused_where_changes_are_forgotten() -> None:
    assert check(History([created()], [watch(4, expired=True)], keeps_all=False)) == []


@pytest.mark.parametrize("module", [checking, linearizing, recording], ids=lambda module: module.__name__)
def test_the_checker_imports_nothing_of_the_server(module: ModuleType) -> None:
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            own = name in ("tests.histories.linearizing", "tests.histories.recording")
            assert own or name.partition(".")[0] in sys.stdlib_module_names
