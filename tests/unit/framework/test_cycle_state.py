from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import CycleState, StateKey
from kuberth.testing import make_pod


@dataclass
class Counted:
    """Data that follows a what-if."""

    numbers: list[int] = field(default_factory=list)

    def clone(self) -> Counted:
        return Counted(list(self.numbers))


COUNTED = StateKey[Counted]("counted")
NAMES = StateKey[list[str]]("names")


def test_what_is_written_is_read() -> None:
    state = CycleState()
    counted = Counted([1])
    state.write(COUNTED, counted)
    assert state.read(COUNTED) is counted
    assert state.get(COUNTED) is counted


def test_a_key_that_was_never_written() -> None:
    state = CycleState()
    with pytest.raises(KeyError, match="nothing was written under 'counted' in this scheduling cycle"):
        state.read(COUNTED)
    assert state.get(COUNTED) is None
    state.delete(COUNTED)


def test_a_deleted_value_is_gone() -> None:
    state = CycleState()
    state.write(NAMES, ["a"])
    state.delete(NAMES)
    assert state.get(NAMES) is None


def test_keys_of_the_same_name_do_not_collide() -> None:
    first, second = StateKey[int]("data"), StateKey[int]("data")
    state = CycleState()
    state.write(first, 1)
    state.write(second, 2)
    assert (state.read(first), state.read(second)) == (1, 2)


def test_a_clone_changes_alone() -> None:
    state = CycleState(PodInfo(make_pod("p")), record_plugin_metrics=True)
    state.write(COUNTED, Counted([1]))
    state.write(NAMES, ["a"])
    state.skip_filter, state.skip_score, state.skip_pre_bind = (
        frozenset("f"),
        frozenset("s"),
        frozenset("b"),
    )
    copy = state.clone()
    copy.read(COUNTED).numbers.append(2)
    copy.delete(NAMES)
    assert state.read(COUNTED).numbers == [1]
    assert state.read(NAMES) == ["a"]
    assert copy.pod_info is state.pod_info
    assert copy.record_plugin_metrics
    assert (copy.skip_filter, copy.skip_score, copy.skip_pre_bind) == (
        frozenset("f"),
        frozenset("s"),
        frozenset("b"),
    )


@pytest.mark.parametrize(
    "attribute, value",
    [
        pytest.param("group", object(), id="it-is-one-of-a-group"),
        pytest.param("missed_pre_filter", frozenset("m"), id="not-called-at-pre-filter"),
        pytest.param("scores_bare_nodes", True, id="nodes-are-an-extender's"),
        pytest.param("placing", PodInfo.placed_on, id="how-it-counts-on-a-node"),
    ],
)
def test_a_clone_knows_what_the_cycle_found(attribute: str, value: object) -> None:
    state = CycleState()
    assert getattr(state.clone(), attribute) != value
    setattr(state, attribute, value)
    assert getattr(state.clone(), attribute) is value


def test_pods_to_activate_of_a_clone_are_activated() -> None:
    state, other = CycleState(), make_pod("other")
    state.clone().pods_to_activate["default/other"] = other
    assert state.pods_to_activate == {"default/other": other}


def test_a_value_without_clone_is_shared() -> None:
    state = CycleState()
    state.write(NAMES, ["a"])
    state.clone().read(NAMES).append("b")
    assert state.read(NAMES) == ["a", "b"]
