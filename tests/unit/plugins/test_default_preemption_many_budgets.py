"""Thousands of budgets: the same answers as from asking each one about each victim, for much less work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.selectors import Requirement, Selector, compile_label_selector
from kuberth.api.wire import convert
from kuberth.cluster.pod_info import PodInfo
from kuberth.informers.store import Store, object_key
from kuberth.plugins.default_preemption import budgets as module
from kuberth.plugins.default_preemption.budgets import Budgets
from kuberth.testing.factories import make_pod
from tests.unit.cluster.selector_strategies import EXPRESSIONS, LABELS


def make_budget(
    name: str, selector: Any, *, allowed: int, disrupted: Sequence[str] = (), namespace: str = "default"
) -> PodDisruptionBudget:
    status = {
        "disruptionsAllowed": allowed,
        "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
    }
    metadata = {"name": name, "namespace": namespace}
    return convert(
        PodDisruptionBudget, {"metadata": metadata, "spec": {"selector": selector}, "status": status}
    )


def asked_one_by_one(
    budgets: Mapping[str, PodDisruptionBudget], victims: Sequence[PodInfo]
) -> tuple[list[str], set[str]]:
    """The victims that break a budget, and the budgets that had a say."""
    used: dict[str, int] = {}
    violating = []
    for victim in victims:
        breaks = False
        for key, budget in budgets.items():
            selector = compile_label_selector(budget.spec.selector)
            if budget.metadata.namespace != victim.namespace or selector.empty or not victim.labels:
                continue
            if selector.matches(victim.labels):
                counts = victim.pod.metadata.name not in budget.status.disrupted_pods
                used[key] = used.get(key, 0) + counts
                breaks |= counts and used[key] > budget.status.disruptions_allowed
        if breaks:
            violating.append(victim.key)
    return violating, set(used)


NAMESPACES = st.sampled_from(["default", "other"])
POD_NAMES = [f"p{number}" for number in range(6)]
BUDGETS = st.builds(
    lambda name, expressions, allowed, disrupted, namespace: make_budget(
        name, {"matchExpressions": expressions}, allowed=allowed, disrupted=disrupted, namespace=namespace
    ),
    st.sampled_from(["x", "y", "z"]),
    st.lists(EXPRESSIONS, max_size=2),
    st.integers(-1, 3),
    st.lists(st.sampled_from(POD_NAMES), max_size=2),
    NAMESPACES,
)
VICTIMS = st.lists(
    st.builds(
        lambda name, labels, namespace: PodInfo(make_pod(name, labels=labels, namespace=namespace)),
        st.sampled_from(POD_NAMES),
        LABELS,
        NAMESPACES,
    ),
    max_size=12,
)


@given(
    steps=st.lists(
        st.tuples(st.lists(BUDGETS, max_size=3), st.lists(NAMESPACES, max_size=1), VICTIMS), max_size=5
    ),
    most_kept=st.sampled_from([0, 3, 1 << 18]),
)
def test_answers_are_those_of_every_budget_asked_about_every_victim(
    steps: list[tuple[list[PodDisruptionBudget], list[str], list[PodInfo]]], most_kept: int
) -> None:
    store: Store[PodDisruptionBudget] = Store()
    present: dict[str, PodDisruptionBudget] = {}
    asked = Budgets(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MAX_CACHED", most_kept)
        for changed, without, victims in steps:
            for budget in changed:
                store.set(budget)
                present[object_key(budget)] = budget
            for key in [key for key in present if key.split("/")[0] in without]:
                store.remove(present.pop(key))
            violating, covering = asked_one_by_one(present, victims)
            split = asked.split(victims)
            assert [victim.key for victim in split.violating] == violating
            assert len(split.violating) + len(split.others) == len(victims)
            assert split.covering == covering
            units = [victims[:4], victims[4:]]
            assert [*map(len, asked.split_units(units))] == [*map(len, expected_units(present, units))]


def expected_units(
    budgets: Mapping[str, PodDisruptionBudget], units: Sequence[Sequence[PodInfo]]
) -> tuple[list[Any], list[Any]]:
    counted: list[PodInfo] = []
    violating: list[Any] = []
    others: list[Any] = []
    for unit in units:
        breaks = False
        for victim in unit:
            counted.append(victim)
            before = asked_one_by_one(budgets, counted[:-1])[0]
            if len(asked_one_by_one(budgets, counted)[0]) > len(before):
                breaks = True
                break
        (violating if breaks else others).append(unit)
    return violating, others


@pytest.mark.parametrize("distinct", [False, True], ids=["equal-pods", "different-pods"])
def test_no_selector_is_asked_about_a_single_pod(*, distinct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    number = 200
    store: Store[PodDisruptionBudget] = Store()
    for index in range(number):
        expressions = [{"key": f"k{index}", "operator": "DoesNotExist"}, {"key": "app", "operator": "Exists"}]
        store.set(make_budget(f"b{index}", {"matchExpressions": expressions}, allowed=0))
    budgets = Budgets(store)
    budgets.catch_up()

    def forbidden(*_: object) -> bool:
        raise AssertionError("a requirement was asked")

    monkeypatch.setattr(Selector, "matches", forbidden)
    monkeypatch.setattr(Requirement, "matches_value", forbidden)
    labels = [{"app": f"a{index if distinct else 0}"} for index in range(30)]
    victims = [PodInfo(make_pod(f"p{index}", labels=each)) for index, each in enumerate(labels)]
    split = budgets.split(victims)
    assert len(split.violating) == 30
    assert len(split.covering) == number
    assert budgets.split(victims).covering is split.covering, "nodes share the set"
