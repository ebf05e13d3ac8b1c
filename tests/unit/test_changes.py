from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.api.core import Node
from kuberth.changes import REMEMBERED_CHANGES, Changes
from kuberth.informers.store import Store
from kuberth.testing.factories import make_node

_READ: Final = "read"
_MISSED: Final = ["x"] * (REMEMBERED_CHANGES + 1)


@pytest.mark.parametrize(
    ("steps", "answers"),
    [
        pytest.param([_READ], [None], id="first read, empty log"),
        pytest.param(["a", "b", _READ], [None], id="first read"),
        pytest.param([_READ, _READ], [None, set()], id="nothing changed"),
        pytest.param([_READ, "a", _READ, _READ], [None, {"a"}, set()], id="one change, read once"),
        pytest.param(["a", _READ, "b", "c", "b", _READ], [None, {"b", "c"}], id="only what came after"),
        pytest.param([_READ, *_MISSED[1:], _READ], [None, {"x"}], id="as many as the log holds"),
        pytest.param([_READ, *_MISSED, _READ, _READ], [None, None, set()], id="more than the log holds"),
    ],
)
def test_reader(steps: Sequence[str], answers: Sequence[set[str] | None]) -> None:
    changes = Changes[str]()
    reader = changes.reader()
    given_answers = []
    for step in steps:
        if step == _READ:
            given_answers.append(reader.read())
            assert reader.is_current
        else:
            changes.note(step)
            assert not reader.is_current
    assert given_answers == answers


def test_a_reader_made_late_has_read_nothing() -> None:
    changes = Changes[str]()
    changes.note("a")
    reader = changes.reader()
    assert not reader.is_current
    assert reader.read() is None


_Step = tuple[str, int]
_steps: Final = st.lists(
    st.one_of(
        st.tuples(st.just("note"), st.integers(0, 5)),
        st.tuples(st.just("note many"), st.integers(REMEMBERED_CHANGES - 2, REMEMBERED_CHANGES + 2)),
        st.tuples(st.just("make"), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, 3)),
    ),
    max_size=30,
)


@given(_steps)
def test_readers_agree_with_a_list_of_unread_changes(steps: Sequence[_Step]) -> None:
    changes = Changes[int]()
    readers = [changes.reader()]
    unread: list[list[int] | None] = [None]
    for step, number in steps:
        if step == "make":
            readers.append(changes.reader())
            unread.append(None)
        elif step == "read" and number < len(readers):
            missed, unread[number] = unread[number], []
            lost = missed is None or len(missed) > REMEMBERED_CHANGES
            assert readers[number].read() == (None if lost else set(missed or ()))
        elif step != "read":
            for key in (number,) if step == "note" else range(number):
                changes.note(key)
                for keys in unread:
                    if keys is not None:
                        keys.append(key)
        assert [reader.is_current for reader in readers] == [keys == [] for keys in unread]


def test_a_store_notes_what_is_set_and_removed() -> None:
    store = Store[Node]()
    reader = store.change_reader()
    assert reader.read() is None
    store.set(make_node("a"))
    store.set(make_node("b"))
    assert reader.read() == frozenset({"a", "b"})
    store.set(make_node("b"))
    store.remove(make_node("a"))
    assert reader.read() == frozenset({"a", "b"})
    assert store.keys() == {"b"}
