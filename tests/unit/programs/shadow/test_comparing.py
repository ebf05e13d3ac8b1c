"""How one decision compares, and what is found to explain a difference."""

from __future__ import annotations

import pytest

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.evaluation import Evaluator
from kuberth.programs.shadow.comparing import Alteration, ShadowEvaluator, Surroundings
from kuberth.programs.shadow.decisions import Agreement, DifferenceCause
from kuberth.testing import make_node, make_pod

NOTHING = Surroundings()


def big(name: str, node: str) -> Pod:
    return make_pod(name, cpu="2", memory="4Gi", node=node)


def small() -> Pod:
    return make_pod("p", cpu="100m", memory="100Mi")


def shadow_evaluator(*objects: object) -> tuple[ShadowEvaluator, Evaluator]:
    evaluator = Evaluator(objects)
    return ShadowEvaluator(evaluator), evaluator


def test_the_one_best_node() -> None:
    shadow, _ = shadow_evaluator(make_node("n1"), make_node("n2"), big("a", "n1"))
    verdict = shadow.placed(small(), "n2", NOTHING)
    assert (verdict.agreement, verdict.own_node, verdict.equals) == (Agreement.SAME, "n2", 1)


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_one_of_several_best_nodes(node: str) -> None:
    shadow, _ = shadow_evaluator(make_node("n1"), make_node("n2"), make_node("n3", cpu="100m"))
    verdict = shadow.placed(small(), node, NOTHING)
    assert (verdict.agreement, verdict.own_node, verdict.equals) == (Agreement.EQUAL, node, 2)


def test_another_node_that_nothing_explains() -> None:
    shadow, _ = shadow_evaluator(make_node("n1"), make_node("n2"), big("a", "n1"))
    verdict = shadow.placed(small(), "n1", NOTHING)
    assert (verdict.agreement, verdict.own_node, verdict.explanation) == (Agreement.OTHER, "n2", None)


def test_a_node_that_does_not_pass() -> None:
    shadow, _ = shadow_evaluator(make_node("n1", unschedulable=True), make_node("n2"))
    verdict = shadow.placed(small(), "n1", NOTHING)
    assert (verdict.agreement, verdict.own_node) == (Agreement.OTHER, "n2")


def test_no_node_passes() -> None:
    shadow, _ = shadow_evaluator(make_node("n1", unschedulable=True))
    verdict = shadow.placed(small(), "n1", NOTHING)
    assert (verdict.agreement, verdict.own_node) == (Agreement.NOT_PLACED, "")
    assert verdict.answer.message


def test_explained_by_a_binding_that_was_seen_just_before() -> None:
    late, other = big("late", "n1"), big("other", "n3")
    shadow, evaluator = shadow_evaluator(make_node("n1"), make_node("n2"), make_node("n3"), late, other)
    evaluator.add(make_pod("some", cpu="1", node="n2"))
    before = [Alteration(PodInfo(each), adds=False) for each in (other, late)]
    verdict = shadow.placed(small(), "n1", Surroundings(before=before))
    assert verdict.agreement is Agreement.OTHER
    assert verdict.explanation is not None
    assert (verdict.explanation.cause, verdict.explanation.pods) == (
        DifferenceCause.BINDINGS,
        ("default/late",),
    )


def test_explained_by_a_binding_that_is_seen_only_afterwards() -> None:
    shadow, _ = shadow_evaluator(make_node("n1"), make_node("n2"), make_pod("a", cpu="500m", node="n1"))
    after = [Alteration(PodInfo(big(name, node)), adds=True) for name, node in (("x", "n9"), ("y", "n2"))]
    verdict = shadow.placed(small(), "n1", Surroundings(after=after))
    assert verdict.explanation is not None
    assert verdict.explanation.pods == ("default/y",)
    assert "afterwards" in verdict.explanation.text


@pytest.mark.parametrize(
    "gone, explained",
    [
        pytest.param(("late",), ["default/late"], id="the-last-one"),
        pytest.param(("late", "early"), ["default/early", "default/late"], id="all"),
        pytest.param(("other", "early"), None, id="not-an-earlier-one-alone"),
    ],
)
def test_ends_of_pods_are_learned_in_their_order(gone: tuple[str, ...], explained: object) -> None:
    """The real scheduler chose n2, which has a pod more: one that left n1 may still have counted for it."""
    left = {
        "late": make_pod("late", cpu="1", node="n1"),
        "early": make_pod("early", cpu="1", node="n1"),
        "other": make_pod("other", cpu="3", node="n2"),
    }
    there = make_pod("there", cpu="500m" if gone == ("late",) else "1500m", node="n2")
    if gone[0] == "other":
        left["early"] = make_pod("early", cpu="2", node="n1")
    shadow, _ = shadow_evaluator(make_node("n1"), make_node("n2"), there)
    before = [Alteration(PodInfo(left[name]), adds=True, is_learned=True) for name in gone]
    explanation = shadow.placed(small(), "n2", Surroundings(before=before)).explanation
    assert (None if explanation is None else sorted(explanation.pods)) == explained


def test_explained_by_pods_elsewhere_in_the_domain() -> None:
    """A pod counts for its whole zone: neither node of the difference has to be its own."""
    zones = {"n1": "a", "n2": "a", "n3": "b"}
    nodes = [make_node(name, labels={"zone": zone}) for name, zone in zones.items()]
    shadow, _ = shadow_evaluator(*nodes)
    spreading = make_pod(
        "p",
        cpu="100m",
        labels={"app": "x"},
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "x"}},
            }
        ],
    )
    shadow._evaluator.add(make_pod("weight", cpu="3", node="n3"))
    after = [Alteration(PodInfo(make_pod("y", labels={"app": "x"}, node="n2")), adds=True)]
    verdict = shadow.placed(spreading, "n3", Surroundings(after=after))
    assert verdict.explanation is not None
    assert verdict.explanation.pods == ("default/y",)


def test_bindings_that_crossed_are_put_back_in_order() -> None:
    shadow, _ = shadow_evaluator(make_node("n1"), make_node("n2"), make_pod("a", cpu="500m", node="n1"))
    earlier = Alteration(PodInfo(big("earlier", "n2")), adds=True)
    verdict = shadow.placed(small(), "n1", Surroundings(after=[earlier], crossed=[earlier]))
    assert (verdict.agreement, verdict.explanation) == (Agreement.SAME, None)
    assert verdict.reordered == ("default/earlier",)


def test_a_trial_leaves_the_table_as_it_was() -> None:
    shadow, evaluator = shadow_evaluator(make_node("n1"), make_node("n2"), big("a", "n1"))
    before = evaluator.evaluate(small())
    after = [Alteration(PodInfo(big("y", "n2")), adds=True)]
    shadow.placed(small(), "n1", Surroundings(after=after))
    shadow.rejected(small(), Surroundings(after=after))
    assert evaluator.evaluate(small()) == before


def test_explained_by_a_node_that_just_changed() -> None:
    shadow, _ = shadow_evaluator(make_node("n1"), make_node("n2"), big("a", "n1"))
    verdict = shadow.placed(small(), "n1", Surroundings(nodes=["n2"]))
    assert verdict.explanation is not None
    assert (verdict.explanation.cause, verdict.explanation.nodes) == (DifferenceCause.NODES, ("n2",))


@pytest.mark.parametrize(("percentage", "cause"), [(None, DifferenceCause.SAMPLING), (100, None)], ids=str)
def test_explained_by_sampling(percentage: int | None, cause: DifferenceCause | None) -> None:
    nodes = [make_node(f"n{i:03d}") for i in range(200)]
    evaluator = Evaluator([*nodes, big("a", "n000")])
    shadow = ShadowEvaluator(evaluator, percentage_of_nodes_to_score=percentage)
    evaluator.add(*(make_pod(f"some-{i}", cpu="1", node=f"n{i:03d}") for i in range(100, 200)))
    verdict = shadow.placed(small(), "n150", NOTHING)
    assert (verdict.explanation and verdict.explanation.cause) == cause
    worst = shadow.placed(small(), "n000", NOTHING)
    assert worst.explanation is None, "199 better nodes cannot all have been left out"


def test_rejected_by_both() -> None:
    shadow, _ = shadow_evaluator(make_node("n1", unschedulable=True))
    assert shadow.rejected(small(), NOTHING).agreement is Agreement.SAME_VERDICT


def test_rejected_there_and_placed_here() -> None:
    shadow, _ = shadow_evaluator(make_node("n1"))
    verdict = shadow.rejected(small(), NOTHING)
    assert (verdict.agreement, verdict.own_node, verdict.explanation) == (Agreement.NOT_REJECTED, "n1", None)


def test_a_rejection_explained_by_a_pod_that_left_just_before() -> None:
    shadow, _ = shadow_evaluator(make_node("n1", cpu="2"))
    gone = [Alteration(PodInfo(big("gone", "n1")), adds=True)]
    verdict = shadow.rejected(small(), Surroundings(before=gone))
    assert verdict.explanation is not None
    assert verdict.explanation.pods == ("default/gone",)
