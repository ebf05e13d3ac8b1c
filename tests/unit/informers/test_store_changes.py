from __future__ import annotations

from kuberth.api.core import Node
from kuberth.changes import REMEMBERED_CHANGES
from kuberth.informers.store import Store
from kuberth.testing.factories import make_node


def test_changes_are_told_since_a_version() -> None:
    store = Store[Node]()
    assert store.changed_since(0) == frozenset()
    store.set(make_node("a"))
    store.set(make_node("b"))
    seen = store.version
    assert store.changed_since(0) == frozenset({"a", "b"})
    assert store.changed_since(seen) == frozenset()
    store.set(make_node("b"))
    store.remove(make_node("a"))
    assert store.changed_since(seen) == frozenset({"a", "b"})
    assert store.keys() == frozenset({"b"})


def test_too_many_changes_are_told_as_such() -> None:
    store = Store[Node]()
    node = make_node("a")
    for _ in range(REMEMBERED_CHANGES + 1):
        store.set(node)
    assert store.changed_since(0) is None
    assert store.changed_since(1) == frozenset({"a"})
