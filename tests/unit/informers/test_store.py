from __future__ import annotations

import pytest

from kuberth.api.core import Node, Pod
from kuberth.informers.store import Store, Stores, object_key
from kuberth.testing import make_node, make_pod


def test_the_last_version_is_kept() -> None:
    store = Store[Pod]()
    first, second = make_pod("p"), make_pod("p", labels={"a": "1"})
    assert store.set(first) is None
    assert store.set(second) is first
    assert store.get("p", namespace="default") is second
    assert store.get_by_key("default/p") is second
    assert len(store) == 1
    assert list(store) == [second]


def test_what_is_removed_is_gone() -> None:
    store = Store[Node]()
    node = make_node("n1")
    store.set(node)
    assert store.remove(make_node("n1")) is node
    assert store.remove(node) is None
    assert store.get("n1") is None


@pytest.mark.parametrize(
    "obj, key", [(make_node("n1"), "n1"), (make_pod("p", namespace="ns"), "ns/p")], ids=["node", "pod"]
)
def test_keys(obj: object, key: str) -> None:
    assert object_key(obj) == key


def test_objects_of_one_namespace() -> None:
    store = Store[Pod]()
    for namespace in ("team", "team-b"):
        store.set(make_pod("p", namespace=namespace))
    assert [pod.metadata.namespace for pod in store.in_namespace("team")] == ["team"]


def test_a_store_per_kind_that_someone_asked_for() -> None:
    stores = Stores()
    stores.of(Pod).set(make_pod("p"))
    assert len(stores.of(Pod)) == 1
    assert len(stores.of(Node)) == 0
    assert stores.kinds() == (Pod, Node)
