from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.nominator import Nominator
from kuberth.testing import make_pod


def pod(name: str = "p", *, nominated: str = "", node: str = "") -> PodInfo:
    status = {"nominatedNodeName": nominated} if nominated else None
    return PodInfo(make_pod(name, uid=name, node=node, status=status))


def test_a_pod_has_one_nomination() -> None:
    nominator = Nominator()
    nominator.nominate(pod("p"), "n1")
    nominator.nominate(pod("q"), "n1")
    nominator.nominate(pod("p"), "n2")
    assert nominator.node_of("p") == "n2"
    assert [info.uid for info in nominator.nominated_on("n1")] == ["q"]
    assert [info.uid for info in nominator.nominated_on("n2")] == ["p"]
    assert set(nominator.nominated_nodes()) == {"n1", "n2"}


def test_an_empty_name_withdraws() -> None:
    nominator = Nominator()
    nominator.nominate(pod(), "n1")
    nominator.nominate(pod(), "")
    assert nominator.node_of("p") == ""
    assert list(nominator.nominated_nodes()) == []


def test_a_placed_pod_needs_no_nomination() -> None:
    nominator = Nominator()
    nominator.nominate(pod(node="n1"), "n1")
    assert nominator.nominated_on("n1") == ()


@pytest.mark.parametrize(
    ("stored", "nominated", "kept"),
    [("", "n2", "n2"), ("n1", "n2", "n2"), ("n1", "", "n1"), ("", "", "")],
    ids=["status", "status-wins", "no-status-keeps", "nothing"],
)
def test_adopt(stored: str, nominated: str, kept: str) -> None:
    nominator = Nominator()
    nominator.nominate(pod(), stored)
    nominator.adopt(pod(nominated=nominated))
    assert nominator.node_of("p") == kept


@pytest.mark.parametrize(
    ("stored", "before", "after", "kept"),
    [
        pytest.param("", "", "n1", "n1", id="status-is-set"),
        pytest.param("n1", "n1", "n2", "n2", id="status-changes"),
        pytest.param("n1", "n1", "", "", id="status-is-cleared"),
        pytest.param("n1", "", "", "n1", id="own-nomination-not-yet-written"),
        pytest.param("n1", "n2", "", "", id="cleared-though-nominated-otherwise"),
        pytest.param("", "n1", "n1", "n1", id="unchanged-status"),
        pytest.param("", "", "", "", id="never"),
    ],
)
def test_update(stored: str, before: str, after: str, kept: str) -> None:
    nominator = Nominator()
    nominator.nominate(pod(), stored)
    new = pod(nominated=after)
    nominator.update(pod(nominated=before).pod, new)
    assert nominator.node_of("p") == kept
    if kept:
        assert nominator.nominated_on(kept) == (new,), "the nomination has the new version"


def test_an_update_that_places_the_pod_ends_its_nomination() -> None:
    nominator = Nominator()
    nominator.nominate(pod(), "n1")
    nominator.update(pod().pod, pod(node="n1"))
    assert nominator.node_of("p") == ""


def test_withdrawing_nothing_is_fine() -> None:
    Nominator().withdraw(pod().pod)


@given(st.lists(st.tuples(st.sampled_from("pqr"), st.sampled_from(["", "n1", "n2"]))))
def test_both_directions_agree(steps: list[tuple[str, str]]) -> None:
    nominator = Nominator()
    expected: dict[str, str] = {}
    for uid, node in steps:
        nominator.nominate(pod(uid), node)
        expected[uid] = node
    stored = {uid: node for uid, node in expected.items() if node}
    assert {uid: nominator.node_of(uid) for uid in expected} == expected
    assert {
        info.uid: node for node in nominator.nominated_nodes() for info in nominator.nominated_on(node)
    } == stored
