"""The whole corpus, case by case, as part of the tests."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.conformance.cases import CORPUS, Case, decoded, lines_by_family
from tests.conformance.replay import differences
from tests.conformance.selectors import tally

COUNTS = {
    "large": 200,
    "schedule": 1700,
    "preempt": 400,
    "hint": 1000,
    "queue": 400,
    "dra": 1200,
    "dra-gates": 886,
    "dra-hint": 400,
    "cel": 400,
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Hints that fail are part of the corpus; their tracebacks are not worth printing."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


FAMILIES = {
    name: (kind, lines)
    for kind in COUNTS
    for name, lines in lines_by_family(CORPUS / f"{kind}.jsonl.gz").items()
}


def cases_of(name: str) -> list[Case]:
    return [decoded(line) for line in FAMILIES[name][1]]


def test_the_corpus_is_complete() -> None:
    found = dict.fromkeys(COUNTS, 0)
    for kind, lines in FAMILIES.values():
        found[kind] += len(lines)
    assert found == COUNTS


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name: str) -> None:
    cases = cases_of(name)
    wrong = {case["id"]: found for case in cases if (found := differences(case))}
    assert not wrong, f"{len(cases) - len(wrong)}/{len(cases)} matched; first: {next(iter(wrong.items()))}"


def test_selectors_answer_all_expressions() -> None:
    counts = sum((tally(case) for case in cases_of("cel")), Counter[str]())
    assert counts["answers"] == counts["expressions"] == 4800


def test_a_wrong_selector_is_noticed() -> None:
    case = cases_of("cel")[0]
    wrong = [
        {"match": not one["match"]} if "match" in one else {"match": True} for one in case["expect"]["cel"]
    ]
    assert len(differences({**case, "expect": {"cel": wrong}})) == len(case["expressions"])


def test_a_wrong_answer_is_noticed() -> None:
    """The comparison itself: a changed expectation must not pass."""
    case = cases_of("queue")[0]
    steps = [dict(step) for step in case["expect"]["steps"]]
    steps[0] = {**steps[0], "active": ["missing"]}
    assert differences({**case, "expect": {"steps": steps}})
