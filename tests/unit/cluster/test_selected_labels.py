"""What selectors can see of labels: pods that look the same are the same to every selector that is known."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberth.api.meta import LabelSelector
from kuberth.api.selectors import Operator, Requirement, Selector, compile_label_selector
from kuberth.api.wire import convert
from kuberth.changes import Changes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.selected_labels import SeenLabel, SelectedLabels
from kuberth.testing import make_pod

KEYS, VALUES = ["app", "own"], ["a", "b", "c", ""]


def selector(key: str, operator: str, *values: str) -> Selector:
    tree = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    return compile_label_selector(convert(LabelSelector, tree))


def pod(labels: dict[str, str], **fields: Any) -> PodInfo:
    return PodInfo(make_pod("p", labels=labels, **fields))


def noted(*selectors: Selector) -> SelectedLabels:
    labels = SelectedLabels()
    for each in selectors:
        labels.note(each.requirements)
    return labels


@pytest.mark.parametrize(
    ("selectors", "seen"),
    [
        pytest.param([], [], id="none"),
        pytest.param([selector("app", "In", "a", "b")], [("app", "a")], id="in"),
        pytest.param([selector("app", "NotIn", "a")], [("app", "a")], id="not-in"),
        pytest.param([selector("app", "In", "b")], [], id="another-value"),
        pytest.param([selector("app", "Exists")], [("app",)], id="exists"),
        pytest.param([selector("app", "DoesNotExist")], [("app",)], id="does-not-exist"),
        pytest.param([selector("tier", "Exists")], [], id="another-label"),
        pytest.param(
            [selector("app", "Exists"), selector("app", "In", "a")], [("app", "a")], id="value-and-presence"
        ),
        pytest.param(
            [Selector((Requirement("own", Operator.GREATER_THAN, ("1",)),))],
            [("own", "7")],
            id="gt",
        ),
    ],
)
def test_a_label_is_seen_as_far_as_selectors_look_at_it(
    selectors: list[Selector], seen: list[SeenLabel]
) -> None:
    assert noted(*selectors).of(pod({"app": "a", "own": "7"})) == seen


def _near(operator: str, *values: str) -> dict[str, Any]:
    expression = {"key": "app", "operator": operator, "values": list(values)}
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [expression]}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _spread(**fields: Any) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"topologySpreadConstraints": [constraint]}


@pytest.mark.parametrize(
    "own",
    [
        pytest.param(_near("In", "a"), id="affinity"),
        pytest.param(_spread(labelSelector={"matchLabels": {"app": "a"}}), id="spread"),
        pytest.param(_spread(labelSelector={}, matchLabelKeys=["app"]), id="same-value"),
    ],
)
def test_a_pods_own_selectors_look_at_its_labels(own: dict[str, Any]) -> None:
    assert SelectedLabels().of(pod({"app": "a", "own": "1"}, **own)) == [("app", "a")]


def test_a_selector_that_cannot_be_read_looks_at_nothing() -> None:
    broken = _spread(labelSelector={"matchExpressions": [{"key": "app", "operator": "Near"}]})
    assert SelectedLabels().of(pod({"app": "a"}, **broken)) == []


@pytest.mark.parametrize(
    ("more", "grows"),
    [
        pytest.param(selector("app", "In", "a"), True, id="a-value-that-a-pod-has"),
        pytest.param(selector("app", "Exists"), True, id="a-label-that-a-pod-has"),
        pytest.param(selector("app", "In", "z"), False, id="a-value-that-no-pod-has"),
        pytest.param(selector("tier", "Exists"), False, id="a-label-that-no-pod-has"),
        pytest.param(selector("app", "In", "b"), False, id="a-value-that-is-seen-already"),
    ],
)
def test_the_version_grows_when_more_is_seen_of_a_pod(more: Selector, grows: bool) -> None:
    labels = noted(selector("app", "In", "b"))
    labels.of(pod({"app": "a"}))
    labels.of(pod({"app": "b"}))
    version = labels.version
    labels.note(more.requirements)
    assert (labels.version > version) == grows


def test_what_is_followed_is_noted_when_it_has_changed() -> None:
    labels, changes = SelectedLabels(), Changes[str]()
    seen: list[frozenset[str] | None] = []
    labels.follow(changes, seen.append)
    labels.refresh()
    labels.refresh()
    changes.note("x")
    labels.refresh()
    labels.refresh()
    assert seen == [None, frozenset({"x"})]


def test_thousands_of_values_of_one_label_make_each_of_its_values_count_and_no_other_label() -> None:
    labels = SelectedLabels()
    labels.of(pod({"app": "never-named"}))
    labels.note(selector("app", "NotIn", *map(str, range(10_000))).requirements)
    assert labels.version == 1
    assert labels.of(pod({"app": "never-named", "own": "1"})) == [("app", "never-named")]


def test_beyond_a_number_of_labels_all_count() -> None:
    labels = SelectedLabels()
    labels.of(pod({"own": "1"}))
    with patch("kuberth.cluster.selected_labels.MAX_SELECTED", 10):
        for number in range(11):
            labels.note(selector(f"key-{number}", "Exists").requirements)
        assert labels.version == 1
        assert labels.of(pod({"own": "1"})) == [("own", "1")]
        for value in "abc":  # which select nothing that does not count already
            labels.of(pod({"app": value}, **_spread(labelSelector={}, matchLabelKeys=["app"])))
        assert labels.version == 1


_SELECTORS = st.builds(
    selector, st.sampled_from(KEYS), st.sampled_from(["In", "NotIn"]), st.sampled_from(VALUES)
) | st.builds(selector, st.sampled_from(KEYS), st.sampled_from(["Exists", "DoesNotExist"]))
_LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


@settings(max_examples=200, deadline=None)
@given(steps=st.lists(_SELECTORS | _LABELS, max_size=25), limit=st.sampled_from([2, 1000]))
def test_pods_that_look_the_same_are_the_same_to_every_selector(steps: list[Any], limit: int) -> None:
    bounds: dict[str, Any] = {"MAX_VALUES": limit, "MAX_SELECTED": 2 * limit, "MAX_UNSEEN": limit}
    with patch.multiple("kuberth.cluster.selected_labels", **bounds):
        labels, known = SelectedLabels(), list[Selector]()
        met: dict[tuple[int, tuple[SeenLabel, ...]], list[dict[str, str]]] = {}
        for step in steps:
            if isinstance(step, Selector):
                labels.note(step.requirements)
                known.append(step)
            else:
                seen = tuple(labels.of(pod(step)))
                met.setdefault((labels.version, seen), []).append(step)
            for (version, _seen), equals in met.items():
                if version == labels.version:
                    for each in known:
                        assert len({each.matches(equal) for equal in equals}) == 1, each
