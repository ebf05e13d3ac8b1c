"""Plans: which pods share one, how many there can be at most, and when what was prepared is void."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from kuberth.changes import Version
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import (
    SKIP,
    DependsOn,
    FilterPlugin,
    Idle,
    Inputs,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    ScorePlugin,
    StateKey,
    Status,
)
from kuberth.framework.equal_pods import EqualPods
from kuberth.framework.plan import plan_bytes
from kuberth.framework.plans import REJECTION_BYTES, Plans
from kuberth.testing import make_node, make_pod
from tests.unit.framework.harness import Framework, framework, plugin, state_of


def stating(name: str, fields: set[str], **phases: Any) -> type[Plugin]:
    made = plugin(name, FilterPlugin, filter=None)
    made.inputs = Inputs(fields, filter=DependsOn.NODE_OBJECT, **phases)
    return made


LABELS = stating("Labels", {"metadata.labels", "spec.tolerations"})


def app(name: str, **fields: Any) -> PodInfo:
    return PodInfo(make_pod(f"of-{name}", labels={"app": name}, **fields))


def plans_of(made: Framework) -> Plans:
    plans = made.runner.plans
    assert plans is not None
    return plans


def find(made: Framework, info: PodInfo) -> EqualPods | None:
    return plans_of(made).find(info, made.nodes)


def second(made: Framework, info: PodInfo) -> EqualPods:
    """What the second of equal pods gets."""
    assert find(made, info) is None
    equal_pods = find(made, info)
    assert equal_pods is not None
    return equal_pods


def test_the_second_of_equal_pods_gets_a_plan_and_shares_it_with_all_that_follow() -> None:
    made = framework(LABELS)
    assert find(made, app("a")) is None
    assert find(made, app("b")) is None
    equal_pods = find(made, app("a"))
    assert equal_pods is not None
    assert find(made, app("a")) is equal_pods
    assert find(made, app("b")) is not equal_pods


def test_without_a_statement_there_are_no_plans() -> None:
    made = framework(plugin("Silent", FilterPlugin, filter=None))
    assert [find(made, app("a")) for _ in range(3)] == [None, None, None]


@pytest.mark.parametrize("field", ["priority", "labels", "tolerations"])
def test_pods_that_differ_in_what_is_stated_are_not_equal(field: str) -> None:
    made = framework(LABELS)
    differs: dict[str, Any] = {"priority": 7, "labels": {"app": "b"}, "tolerations": [{"key": "k"}]}
    known = second(made, app("a"))
    given = {"labels": {"app": "a"}, field: differs[field]}
    assert find(made, PodInfo(make_pod("other", **given))) is None
    assert find(made, app("a", metadata={"annotations": {"x": "y"}})) is known, "no plugin reads it"


def test_pods_share_a_plan_of_nodes_if_no_kept_plugin_distinguishes_them() -> None:
    looking = plugin("Labels", PreFilterPlugin, FilterPlugin, pre_filter=None, filter=None)
    looking.inputs = Inputs({"metadata.labels"}, pre_filter=DependsOn.POD, filter=DependsOn.ANYTHING)
    made = framework(stating("Tolerations", {"spec.tolerations"}), looking)
    a, b = second(made, app("a")), second(made, app("b"))
    tolerant = second(made, app("a", tolerations=[{"key": "k"}]))
    assert a is not b
    assert a.plan is b.plan is not None
    assert tolerant.plan is not a.plan
    assert [each.name for each in a.uncached_filters] == ["Labels"]


def test_what_is_known_of_nodes_goes_with_the_last_plan_that_needs_it() -> None:
    made = framework(LABELS)
    with patch("kuberth.framework.plans.MAX_PLANS", 3):
        for number in range(20):
            second(made, app(str(number)))
    gc.collect()
    assert len(plans_of(made)._plans) == len(plans_of(made)) == 3


def test_a_pod_that_cannot_be_signed_is_like_no_other() -> None:
    made = framework(LABELS)
    odd = PodInfo(make_pod("odd", tolerations=[{"key": "k", "tolerationSeconds": 2**70}]))
    assert [find(made, odd) for _ in range(3)] == [None, None, None]


def test_large_pods_have_short_signatures() -> None:
    made = framework(LABELS)
    one, other = ({f"key-{number}": last for number in range(2000)} for last in ("x", "y"))
    for labels in (one, other, one, other):
        find(made, PodInfo(make_pod("large", labels=labels)))
    assert len(plans_of(made)) == 2
    assert all(len(signature) <= 512 for signature in plans_of(made)._equal_pods)


def test_the_number_of_plans_is_bounded_and_the_one_unused_for_longest_goes() -> None:
    made = framework(LABELS)
    with patch("kuberth.framework.plans.MAX_PLANS", 3):
        for name in "abcabc":
            find(made, app(name))
        kept = find(made, app("a"))
        for name in "defdef":
            find(made, app(name))
            assert find(made, app("a")) is kept
        assert len(plans_of(made)) == 3


def test_signatures_seen_once_are_forgotten_in_the_end() -> None:
    made = framework(LABELS)
    with patch("kuberth.framework.plans.MAX_SIGNATURES", 3):
        for name in "abcd":
            assert find(made, app(name)) is None
        assert find(made, app("a")) is None, "four came, three are remembered"
        assert find(made, app("d")) is not None


def limited(max_plans: int, nodes: int) -> Framework:
    """A framework whose cache holds `max_plans` plans for `nodes` nodes."""
    made = framework(LABELS, nodes=[f"n{number}" for number in range(nodes)])
    capacity = len(made.cluster.live)
    plans_of(made).max_bytes = max_plans * (plan_bytes(capacity, 0) + REJECTION_BYTES * capacity)
    return made


def test_the_bytes_of_plans_are_bounded_from_the_first_use_on() -> None:
    made = limited(5, nodes=100)
    for number in range(40):
        second(made, app(str(number)))
        assert len(plans_of(made)) <= 5


def test_the_bytes_of_plans_are_bounded_when_the_cluster_grows() -> None:
    made = limited(40, nodes=4)
    for number in range(40):
        second(made, app(str(number)))
    assert len(plans_of(made)) == 40
    before = len(made.cluster.live)
    for number in range(1000):
        made.cluster.set_node(make_node(f"more-{number}"))
    assert find(made, app("39")) is not None
    assert len(plans_of(made)) == 40 * before // len(made.cluster.live)


def test_a_plan_takes_as_much_memory_as_it_is_counted_for() -> None:
    scoring = plugin("S", ScorePlugin, score=1)
    scoring.inputs = Inputs({"metadata.labels"}, score=DependsOn.NODE_OBJECT)
    made = framework(LABELS, scoring, nodes=[f"n{number}" for number in range(4000)])
    made.cluster.node_order()  # which all plans share
    find(made, app("a"))
    tracemalloc.start()
    try:
        assert find(made, app("a")) is not None
        snapshot = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    # Arrays alone: what else the interpreter allocates depends on the tests that ran before.
    arrays = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)
    taken = sum(trace.size for trace in snapshot.filter_traces([arrays]).traces)
    assert plan_bytes(len(made.cluster.live), 1) == pytest.approx(taken, rel=0.05)


# What plugins prepare


ANSWER: StateKey[int] = StateKey("answer")


class Counting(PreFilterPlugin):
    """Prepares a number, and counts how often it is asked."""

    name = "Counting"
    asked = 0
    answer: PreFilterResult | Status | None = None

    def pre_filter(self, state: Any, _pod: Any, _nodes: Any) -> PreFilterResult | Status | None:
        type(self).asked += 1
        state.write(ANSWER, self.asked)
        return self.answer


def prepared(made: Framework, info: PodInfo) -> tuple[Any, frozenset[str]]:
    state = state_of(info.pod)
    outcome = made.runner.pre_filtering.run(state, info.pod, made.nodes)
    return (outcome.status, outcome.node_names, state.get(ANSWER)), state.skip_filter


def counting(**body: Any) -> type[Counting]:
    return type("Counting", (Counting,), {"asked": 0, **body})


@pytest.mark.parametrize("answer", [None, SKIP], ids=["success", "skip"])
def test_what_depends_on_the_pod_alone_is_prepared_once(answer: Status | None) -> None:
    each = counting(inputs=Inputs({"metadata.labels"}, pre_filter=DependsOn.POD), answer=answer)
    made = framework(each)
    answers = [prepared(made, app("a")) for _ in range(5)]
    assert each.asked == 2, "for the first pod, and for all that follow"
    assert answers[1:] == [answers[1]] * 4
    assert answers[0][1] == answers[1][1] == (frozenset({"Counting"}) if answer is SKIP else frozenset())


def test_what_was_prepared_is_void_when_a_version_grows() -> None:
    source, other = Version(), Version()
    each = counting(inputs=Inputs({"metadata.labels"}, pre_filter=DependsOn.POD, versions=(source, other)))
    made = framework(each)
    for _ in range(3):
        prepared(made, app("a"))
    asked = each.asked
    for changed in (source, other):
        changed.version += 1
        for _ in range(2):
            prepared(made, app("a"))
        asked += 1
        assert each.asked == asked


@pytest.mark.parametrize(
    "answer",
    [
        PreFilterResult(frozenset({"n1"})),
        Status.unschedulable("no"),
        Status.unresolvable("never"),
        Status.error("broken"),
    ],
    ids=["narrows", "rejects", "rejects for good", "fails"],
)
def test_an_answer_that_does_more_than_prepare_is_asked_for_every_pod(
    answer: PreFilterResult | Status,
) -> None:
    each = counting(inputs=Inputs({"metadata.labels"}, pre_filter=DependsOn.POD), answer=answer)
    made = framework(each)
    prepared(made, app("a"))
    prepared(made, app("a"))
    asked = each.asked
    outcomes = [prepared(made, app("a"))[0][:2] for _ in range(3)]
    assert each.asked == asked + 3
    assert outcomes == [prepared(framework(each), app("a"))[0][:2]] * 3


def test_a_plugin_is_not_asked_about_pods_that_have_nothing_it_needs() -> None:
    each = counting(
        inputs=Inputs((), pre_filter=DependsOn.ANYTHING, only_with={"info.volume_claims"}), answer=SKIP
    )
    made = framework(each, LABELS)
    plain = app("a")
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    with_claim = app("a", volumes=[claim])
    for info in (plain, with_claim):
        for _ in range(2):
            prepared(made, info)
    asked = each.asked
    assert prepared(made, plain)[1] == frozenset({"Counting"})
    assert each.asked == asked
    prepared(made, with_claim)
    assert each.asked == asked + 1


def test_a_plugin_is_not_asked_about_pods_with_which_it_says_it_has_nothing_to_do() -> None:
    source, wanted = Version(), set[str]()

    def is_idle(info: PodInfo) -> bool:
        return wanted.isdisjoint(info.labels.values())

    idle = Idle({"metadata.labels"}, is_idle, (source,))
    each = counting(
        inputs=Inputs((), pre_filter=DependsOn.ANYTHING, only_with={"metadata.labels"}, idle=idle)
    )
    made = framework(each, stating("Tolerations", {"spec.tolerations"}))

    def asked(info: PodInfo) -> int:
        before = each.asked
        prepared(made, info)
        return each.asked - before

    assert [asked(app("a")) for _ in range(4)] == [1, 0, 0, 0], "only of the first it is not known"
    assert [asked(app("b")) for _ in range(4)] == [1, 0, 0, 0], "the fields that it reads are signed"
    wanted.add("b")
    source.version += 1
    assert [(asked(app("a")), asked(app("b"))) for _ in range(3)] == [(0, 1)] * 3


def test_a_plugin_that_fails_to_say_whether_it_is_idle_is_asked() -> None:
    def is_idle(_info: PodInfo) -> bool:
        raise ValueError("broken")

    idle = Idle((), is_idle)
    each = counting(
        inputs=Inputs((), pre_filter=DependsOn.ANYTHING, only_with={"metadata.labels"}, idle=idle)
    )
    made = framework(each, LABELS)
    for _ in range(3):
        prepared(made, app("a"))
    assert each.asked == 3


def test_equal_pods_share_what_a_plugin_keeps_for_them() -> None:
    made = framework(LABELS)
    keeper, stranger = made.profile.plugins["Labels"], plugin("Silent", FilterPlugin, filter=None)()
    key: StateKey[object] = StateKey("kept")

    def shared(name: str, by: Plugin) -> object:
        state = state_of(app(name).pod)
        made.runner.pre_filtering.run(state, app(name).pod, made.nodes)
        return state.for_equal_pods(by, key, object)

    for name in "ab":
        shared(name, keeper)
    kept = shared("a", keeper)
    assert shared("a", keeper) is kept
    assert shared("b", keeper) is not kept
    assert shared("a", stranger) is not kept, "it does not state what it reads"
    state = state_of(app("a").pod)
    made.runner.pre_filtering.run(state, app("a").pod, made.nodes)
    assert state.clone().for_equal_pods(keeper, key, object) is not kept, "a what-if is not remembered"


def test_a_plugin_whose_statement_is_wrong_is_asked_every_time() -> None:
    each = counting(inputs=Inputs({"metadata.labels"}, pre_filter=DependsOn.POD))
    made = framework(each, LABELS)
    for _ in range(3):
        prepared(made, app("a"))
    assert made.runner.distrust("Counting")
    assert not made.runner.distrust("Counting"), "once is enough"
    asked = each.asked
    for _ in range(4):
        prepared(made, app("a"))
    assert each.asked == asked + 4
    assert find(made, app("a")) is not None, "others are still believed"
