"""A pod with thousands of terms costs a hint or a verdict no more than it has to."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.api.core import Taint, Toleration
from kuberth.api.selectors import required_node_affinity
from kuberth.api.taints import KeyedTolerations, find_untolerated, toleration_tolerates
from kuberth.cluster import selection
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cluster_events import Action, Hint, Resource
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.harness import evaluator, hint

NODE_TERM = "kuberth.api.selectors.nodes.new_requirement"
POD_TERM = "kuberth.plugins.inter_pod_affinity.hints.compile_term"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def affinity(kind: str, number: int) -> dict[str, Any]:
    expression = {"key": "app", "operator": "In", "values": ["none"]}
    if kind == "nodeAffinity":
        return {kind: {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}] * number}}}
    return {
        kind: {
            REQUIRED: [{"topologyKey": "zone", "labelSelector": {"matchExpressions": [expression]}}] * number
        }
    }


@pytest.mark.parametrize(
    ("plugin", "kind", "event", "compiled"),
    [
        ("NodeAffinity", "nodeAffinity", (Resource.NODE, Action.ADD), NODE_TERM),
        ("InterPodAffinity", "podAffinity", (Resource.POD, Action.ADD), POD_TERM),
        ("InterPodAffinity", "podAntiAffinity", (Resource.POD, Action.DELETE), POD_TERM),
    ],
)
def test_hints_compile_the_terms_of_a_waiting_pod_once(
    plugin: str, kind: str, event: tuple[Resource, Action], compiled: str
) -> None:
    asked = evaluator(plugin)
    pod = make_pod("waiting", affinity=affinity(kind, 50))
    changed = (
        make_node("n") if event[0] is Resource.NODE else make_pod("other", node="n", labels={"app": "x"})
    )
    old, new = (changed, None) if event[1] is Action.DELETE else (None, changed)
    with patch(compiled, side_effect=compile_of(compiled)) as compiling:
        for _ in range(3):
            assert hint(asked, pod, event, old, new) is Hint.SKIP
        assert compiling.call_count == 50


def compile_of(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(__import__(module, fromlist=[name]), name)


def test_a_node_selector_is_not_compiled_for_a_hint() -> None:
    pod = make_pod("waiting", nodeSelector={f"key-{number}": "x" for number in range(1000)})
    node = make_node("n", labels=dict(pod.spec.node_selector))
    asked = evaluator("NodeAffinity")
    with patch("kuberth.api.selectors.labels.Requirement", side_effect=AssertionError("compiled")):
        added = (Resource.NODE, Action.ADD)
        assert hint(asked, pod, added, None, make_node("n")) is Hint.SKIP
        assert hint(asked, pod, added, None, node) is Hint.QUEUE
        relabelled = (Resource.NODE, Action.UPDATE_NODE_LABEL)
        assert hint(asked, pod, relabelled, node, node) is Hint.SKIP
        assert hint(asked, pod, relabelled, make_node("n"), node) is Hint.QUEUE


def test_requirements_are_asked_until_no_node_is_left() -> None:
    table = ClusterTable()
    table.set_node(make_node("n", labels={"key-0": "x"}))
    pod = make_pod("p", nodeSelector={f"key-{number}": "x" for number in range(1000)})
    with patch.object(selection, "meets_requirement", side_effect=selection.meets_requirement) as asked:
        assert not selection.meets_required_affinity(table.all_nodes(), required_node_affinity(pod)).any()
        assert asked.call_count == 2


KEYS = st.sampled_from(["", "a", "b"])
VALUES = st.sampled_from(["", "1", "2"])
EFFECTS = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
TOLERATIONS = st.builds(
    Toleration,
    key=KEYS,
    operator=st.sampled_from(["", "Equal", "Exists", "Gt", "Lt"]),
    value=VALUES,
    effect=st.sampled_from(["", "NoSchedule", "PreferNoSchedule"]),
)
TAINTS = st.builds(Taint, key=st.sampled_from(["a", "b", "c"]), value=VALUES, effect=EFFECTS)


@given(st.lists(TOLERATIONS), st.lists(TAINTS), st.booleans())
def test_tolerations_by_key_cover_what_they_cover_one_by_one(
    tolerations: list[Toleration], taints: list[Taint], comparison: bool
) -> None:
    keyed = KeyedTolerations(tolerations, comparison_operators=comparison)
    assert keyed.cover_all(taints) is (
        find_untolerated(taints, tolerations, comparison_operators=comparison) is None
    )
    for taint in taints:
        one_by_one = [
            toleration_tolerates(each, taint, comparison_operators=comparison) for each in tolerations
        ]
        assert keyed.cover(taint) is any(one_by_one)


def test_of_thousands_of_tolerations_few_are_asked() -> None:
    tolerations = [Toleration(key=f"key-{number}", operator="Exists") for number in range(1000)]
    keyed = KeyedTolerations(tolerations)
    with patch("kuberth.api.taints.toleration_tolerates", side_effect=toleration_tolerates) as asked:
        assert keyed.cover(Taint(key="key-7", effect="NoSchedule"))
        assert not keyed.cover(Taint(key="other", effect="NoSchedule"))
        assert asked.call_count == 1
