from __future__ import annotations

from collections.abc import Callable

import pytest

from kuberth.api.core import Namespace, Node, PersistentVolumeClaim, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.handle import Handle
from kuberth.framework.moments import moment
from kuberth.testing import make_namespace, make_node, make_pod
from tests.unit.framework.harness import make_handle


def now(handle: Handle) -> tuple[int, int, int]:
    return moment(handle.cluster, handle.nominator, handle.stores)


def what_if(handle: Handle) -> None:
    with handle.cluster.what_if() as question:
        question.add_pod(PodInfo(make_pod("q")), 0)


CHANGES: dict[str, tuple[Callable[[Handle], object], bool]] = {
    "a pod is placed": (lambda handle: handle.cluster.add_pod(PodInfo(make_pod("q", node="n1"))), True),
    "a node changes": (lambda handle: handle.cluster.set_node(make_node("n1", cpu="9")), True),
    "a node is nominated": (lambda handle: handle.nominator.nominate(PodInfo(make_pod("q")), "n1"), True),
    "a claim changes": (
        lambda handle: handle.stores.of(PersistentVolumeClaim).set(
            PersistentVolumeClaim(metadata=ObjectMeta(name="c", namespace="d"))
        ),
        True,
    ),
    "a namespace changes": (lambda handle: handle.stores.of(Namespace).set(make_namespace("d")), True),
    "a pod is seen in a newer version": (lambda handle: handle.stores.of(Pod).set(make_pod("q")), False),
    "a node reports": (lambda handle: handle.stores.of(Node).set(make_node("n1")), False),
    "a what-if is open": (what_if, False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_makes_another_moment(name: str) -> None:
    change, is_another = CHANGES[name]
    handle = make_handle()
    for kind in (Pod, Node, PersistentVolumeClaim, Namespace):
        handle.stores.of(kind)
    handle.cluster.set_node(make_node("n1"))
    before = now(handle)
    change(handle)
    assert (now(handle) != before) == is_another
