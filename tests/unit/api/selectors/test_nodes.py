from __future__ import annotations

import pytest

from kuberth.api import NodeSelector, Pod, convert
from kuberth.api.core import PreferredSchedulingTerm
from kuberth.api.selectors import compile_node_selector, compile_preferred_terms, required_node_affinity
from kuberth.errors import SelectorError

GOOD = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
BAD = {
    "matchExpressions": [
        {"key": "zone", "operator": "In"},
        {"key": "cores", "operator": "Near", "values": ["1"]},
    ]
}
BY_NAME = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


def _selector(*terms: object) -> NodeSelector:
    return convert(NodeSelector, {"nodeSelectorTerms": terms})


def test_terms_are_ored_and_empty_terms_match_nothing() -> None:
    selector = compile_node_selector(_selector({}, GOOD, BY_NAME))
    assert len(selector.terms) == 2
    assert selector.matches({"zone": "a"}, "n9")
    assert selector.matches({}, "n1")
    assert not selector.matches({}, "n2")
    assert not compile_node_selector(_selector({})).matches({}, "n1")
    assert hash(selector) == hash(compile_node_selector(_selector(GOOD, BY_NAME)))


def test_errors_surface_only_when_no_term_matched() -> None:
    selector = compile_node_selector(_selector(BAD, GOOD))
    assert selector.matches({"zone": "a"}, "n1")
    with pytest.raises(SelectorError) as caught:
        selector.matches({"zone": "b"}, "n1")
    assert "nodeSelectorTerms[0].matchExpressions[0]: label 'zone'" in str(caught.value)
    assert "matchExpressions[1].operator: 'Near' is not one of" in str(caught.value)
    with pytest.raises(SelectorError):
        selector.check()


def test_a_negative_bound_is_no_label_value() -> None:
    below = {"matchExpressions": [{"key": "t", "operator": "Gt", "values": ["-5"]}]}
    assert "'-5' is not a label value" in compile_node_selector(_selector(below)).errors[0]


def test_preferred_terms_without_weight_or_question_are_skipped() -> None:
    terms = convert(
        tuple[PreferredSchedulingTerm, ...],
        [
            {"weight": 0, "preference": BAD},
            {"weight": 5, "preference": {}},
            {"weight": 7, "preference": GOOD},
        ],
    )
    (compiled,) = compile_preferred_terms(terms)
    assert compiled.weight == 7
    assert compiled.term.matches({"zone": "a"}, "n1")
    with pytest.raises(SelectorError, match=r"\[0\]\.matchExpressions\[0\]"):
        compile_preferred_terms(
            convert(tuple[PreferredSchedulingTerm, ...], [{"weight": 1, "preference": BAD}])
        )


def test_required_affinity_joins_selector_and_terms() -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [GOOD]}}
    pod = convert(Pod, {"spec": {"nodeSelector": {"disk": "ssd"}, "affinity": {"nodeAffinity": required}}})
    affinity = required_node_affinity(pod)
    assert affinity.matches({"disk": "ssd", "zone": "a"}, "n1")
    assert not affinity.matches({"disk": "ssd"}, "n1")
    assert not affinity.matches({"zone": "a"}, "n1")
    assert required_node_affinity(Pod()).matches({}, "n1")
    assert required_node_affinity(convert(Pod, {"spec": {"affinity": {"podAffinity": {}}}})).matches({}, "n1")
