"""Plans: who gets one, and how many there can be at most."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any
from unittest.mock import patch

import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import ConfigError
from kuberth.framework import FilterPlugin
from kuberth.framework.plans import KnownNodes, Plan, Plans
from kuberth.testing import make_node, make_pod
from tests.unit.framework.rig import framework, plugin, state_of

LABELS = plugin("Labels", FilterPlugin, filter=None)
LABELS.reads = frozenset({"metadata.labels", "spec.tolerations"})


def app(name: str) -> PodInfo:
    return PodInfo(make_pod(f"of-{name}", labels={"app": name}))


def test_the_second_of_equal_pods_gets_a_plan_and_shares_it_with_all_that_follow() -> None:
    plans = Plans([LABELS()])
    assert plans.plan_for(app("a")) is None
    assert plans.plan_for(app("b")) is None
    plan = plans.plan_for(app("a"))
    assert isinstance(plan, Plan)
    assert plans.plan_for(app("a")) is plan
    assert plans.plan_for(app("b")) is not plan


def test_without_a_plugin_that_says_what_it_reads_there_are_no_plans() -> None:
    plans = Plans([plugin("Silent", FilterPlugin, filter=None)()])
    assert [plans.plan_for(app("a")) for _ in range(3)] == [None, None, None]


def test_pods_share_what_is_known_of_nodes_if_no_kept_plugin_tells_them_apart() -> None:
    tolerations = plugin("Tolerations", FilterPlugin, filter=None)
    tolerations.reads = frozenset({"spec.tolerations"})
    plans = Plans([LABELS(), tolerations()])
    plans.keep_filters([tolerations()])

    def second(name: str, **fields: Any) -> Plan:
        info = PodInfo(make_pod("p", labels={"app": name}, **fields))
        assert plans.plan_for(info) is None
        plan = plans.plan_for(info)
        assert plan is not None
        return plan

    a, b, tolerant = second("a"), second("b"), second("a", tolerations=[{"key": "k"}])
    assert a is not b
    assert a.nodes is b.nodes
    assert tolerant.nodes is not a.nodes


def test_what_is_known_of_nodes_goes_with_the_last_plan_that_needs_it() -> None:
    plans = Plans([LABELS()])
    plans.keep_filters([LABELS()])
    with patch("kuberth.framework.plans.MAX_PLANS", 3):
        for number in range(20):
            plans.plan_for(app(str(number)))
            plans.plan_for(app(str(number)))
    gc.collect()
    assert len(plans._nodes) == len(plans) <= 4


@pytest.mark.parametrize("field", ["spec.colour", "info.colour", "labels"])
def test_a_field_that_pods_do_not_have_is_named(field: str) -> None:
    wrong = plugin("Wrong", FilterPlugin, filter=None)
    wrong.reads = frozenset({field})
    with pytest.raises(ConfigError, match=f"plugin 'Wrong' says it reads '{field}'"):
        Plans([wrong()])


def test_a_pod_that_cannot_be_signed_is_like_no_other() -> None:
    plans = Plans([LABELS()])
    odd = PodInfo(make_pod("odd", tolerations=[{"key": "k", "tolerationSeconds": 2**70}]))
    assert [plans.plan_for(odd) for _ in range(3)] == [None, None, None]


def test_large_pods_are_told_apart_by_few_bytes() -> None:
    plans = Plans([LABELS()])
    one, other = ({f"key-{number}": last for number in range(2000)} for last in ("x", "y"))
    for labels in (one, other, one, other):
        plans.plan_for(PodInfo(make_pod("large", labels=labels)))
    assert len(plans) == 2
    assert all(len(signature) <= 512 for signature in plans._plans)


def test_the_number_of_plans_is_bounded_and_the_one_unused_for_longest_goes() -> None:
    plans = Plans([LABELS()])
    with patch("kuberth.framework.plans.MAX_PLANS", 3):
        for name in "abcabc":
            plans.plan_for(app(name))
        kept = plans.plan_for(app("a"))
        for name in "defdef":
            plans.plan_for(app(name))
            assert plans.plan_for(app("a")) is kept
        assert len(plans) <= 4


def test_the_bytes_of_plans_are_bounded_when_the_cluster_grows() -> None:
    made = framework(LABELS, nodes=[f"n{number}" for number in range(4)])
    plans = Plans([LABELS()], max_bytes=200_000)
    names = [str(number) for number in range(40)]
    for name in (*names, *names):
        plan = plans.plan_for(app(name))
        if plan is not None:
            plan.nodes.known(made.cluster)
    assert len(plans) == 40
    for number in range(2000):
        made.cluster.set_node(make_node(f"more-{number}"))
    for name in names * 4:
        plan = plans.plan_for(app(name))
        if plan is not None:
            plan.nodes.known(made.cluster)
    assert len(plans) * plan_size(made.cluster.slots) <= 200_000 + 64 * plan_size(made.cluster.slots)
    assert len(plans) < 40


def test_a_plan_knows_how_much_memory_it_takes() -> None:
    made = framework(LABELS, nodes=[f"n{number}" for number in range(4000)])
    made.cluster.node_order()  # which all plans share
    nodes = KnownNodes(scorers=3)
    tracemalloc.start()
    try:
        nodes.known(made.cluster)
        taken, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert nodes.size == pytest.approx(taken, rel=0.02)


def plan_size(rows: int) -> int:
    return 60 * rows


def test_what_is_recalled_is_made_anew_with_another_version_and_without_a_memory() -> None:
    from kuberth.framework import StateKey

    key: StateKey[object] = StateKey("kept")
    first, second = (state_of(make_pod("p")) for _ in range(2))
    memory: dict[StateKey[object], tuple[object, object]] = {}
    first.memory = second.memory = memory
    made = first.recall(key, 1, object)
    assert second.recall(key, 1, object) is made
    assert second.recall(key, 2, object) is not made
    assert state_of(make_pod("p")).recall(key, 1, object) is not made
    assert first.clone().memory is None, "what is true in a what-if is not to be remembered"
