"""Which evictions break a disruption budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.wire import convert
from kuberth.changes import REMEMBERED_CHANGES
from kuberth.cluster.pod_info import PodInfo
from kuberth.informers.store import Store
from kuberth.plugins.default_preemption.budgets import Budgets
from kuberth.testing.factories import make_pod


def pod(name: str, *, namespace: str = "default", **labels: str) -> PodInfo:
    return PodInfo(make_pod(name, namespace=namespace, labels=labels))


def budget(
    selector: Mapping[str, Any] | None, allowed: int = 0, *, disrupted: Sequence[str] = ()
) -> PodDisruptionBudget:
    status = {
        "disruptionsAllowed": allowed,
        "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
    }
    spec = {} if selector is None else {"selector": selector}
    return convert(
        PodDisruptionBudget,
        {"metadata": {"name": "b", "namespace": "default"}, "spec": spec, "status": status},
    )


def named(name: str, one: PodDisruptionBudget) -> PodDisruptionBudget:
    return replace(one, metadata=replace(one.metadata, name=name))


def stored(*budgets: PodDisruptionBudget) -> Store[PodDisruptionBudget]:
    """A store of them; those of one name get a number."""
    store: Store[PodDisruptionBudget] = Store()
    for number, one in enumerate(budgets):
        store.set(one if number == 0 else named(f"{one.metadata.name}-{number}", one))
    return store


def expression(key: str, operator: str, *values: str) -> Mapping[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


WEB = {"matchLabels": {"app": "web"}}
FRONT = {"matchLabels": {"tier": "front"}}


@pytest.mark.parametrize(
    ("budgets", "pods", "violating"),
    [
        pytest.param([], [pod("a", app="web")], [], id="no budget"),
        pytest.param([budget(WEB)], [pod("a", app="web")], ["a"], id="used up"),
        pytest.param([budget(WEB, -1)], [pod("a", app="web")], ["a"], id="more than used up"),
        pytest.param([budget(WEB)], [pod("a", app="db")], [], id="other labels"),
        pytest.param([budget(WEB)], [pod("a", namespace="other", app="web")], [], id="other namespace"),
        pytest.param(
            [budget(WEB, 1)],
            [pod("a", app="web"), pod("b", app="web"), pod("c", app="web")],
            ["b", "c"],
            id="the first may go, the next not",
        ),
        pytest.param(
            [budget(WEB, 1), budget(FRONT, 0)],
            [pod("a", app="web", tier="front"), pod("b", app="web")],
            ["a", "b"],
            id="a victim counts against every budget that covers it",
        ),
        pytest.param(
            [budget(WEB, 0, disrupted=["a"])],
            [pod("a", app="web"), pod("b", app="web")],
            ["b"],
            id="an eviction already counted by the API server",
        ),
        pytest.param([budget({})], [pod("a", app="web")], [], id="an empty selector covers nothing"),
        pytest.param([budget(None)], [pod("a", app="web")], [], id="no selector covers nothing"),
        pytest.param(
            [budget(expression("app", "Nonsense"))], [pod("a", app="web")], [], id="unreadable selector"
        ),
        pytest.param(
            [budget(expression("app", "DoesNotExist"))],
            [pod("bare"), pod("a", tier="front")],
            ["a"],
            id="a pod without labels is covered by nothing",
        ),
    ],
)
def test_pods_that_violate_a_budget(
    budgets: list[PodDisruptionBudget], pods: list[PodInfo], violating: list[str]
) -> None:
    broken, others, _covering = Budgets(stored(*budgets)).split(pods)
    assert [info.pod.metadata.name for info in broken] == violating
    assert [info for info in pods if info in broken or info in others] == pods
    assert [info.pod.metadata.name for info in others] == [
        info.pod.metadata.name for info in pods if info.pod.metadata.name not in violating
    ]


def test_each_question_starts_with_the_full_budget() -> None:
    budgets = Budgets(stored(budget(WEB, 1)))
    for _ in range(2):
        assert budgets.split([pod("a", app="web")])[0] == []


def test_budgets_that_come_change_and_go_count_as_they_stand() -> None:
    store = stored()
    budgets = Budgets(store)
    web, front = pod("a", app="web"), pod("b", tier="front")

    def violating() -> list[str]:
        return [info.pod.metadata.name for info in budgets.split([web, front])[0]]

    assert violating() == []
    store.set(budget(WEB))
    assert violating() == ["a"]
    store.set(budget(WEB, 1))
    assert violating() == []
    store.set(budget(FRONT))
    assert violating() == ["b"], "another selector under the same name"
    store.set(budget(expression("app", "In", "web", "db")))
    store.set(named("c", budget(expression("app", "NotIn", "web"))))
    assert violating() == ["a", "b"]
    store.remove(named("c", budget(FRONT)))
    assert violating() == ["a"]
    store.remove(budget(FRONT))
    assert violating() == []


def test_after_too_many_changes_all_are_read_again() -> None:
    store = stored(budget(WEB))
    store.set(named("gone", budget(FRONT)))
    budgets, pods = Budgets(store), [pod("a", app="web"), pod("b", tier="front")]
    assert len(budgets.split(pods)[0]) == 2
    store.remove(named("gone", budget(FRONT)))
    for _ in range(REMEMBERED_CHANGES + 1):
        store.set(named("busy", budget({"matchLabels": {"app": "other"}})))
    assert [info.key for info in budgets.split([pod("a", app="web"), pod("b", tier="front")])[0]] == [
        "default/a"
    ]
