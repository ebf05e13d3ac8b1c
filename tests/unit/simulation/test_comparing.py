"""Several runs beside each other, and how they are printed."""

from __future__ import annotations

import re

import msgspec
import pytest

from kuberth.simulation.comparing import Comparison, compare
from kuberth.simulation.outcomes import Outcome
from kuberth.simulation.reporting import as_csv, as_html, as_json, wait_table
from kuberth.simulation.running import simulate
from tests.unit.simulation.harness import pod, scene


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    arrivals = [pod(number, 50, cpu="3") for number in range(4)]
    return compare(
        {
            name: [simulate(scene(*arrivals, nodes=nodes), seed=seed) for seed in (1, 2)]
            for name, nodes in (("few", 1), ("<many>", 4))
        }
    )


def test_differences_are_to_the_first(comparison: Comparison) -> None:
    by = {(each.name, each.variant): each for each in comparison.figures}
    assert by["wait mean (s)", "few"].difference == 0
    assert by["wait mean (s)", "<many>"].mean == 0
    assert by["wait mean (s)", "<many>"].difference == -by["wait mean (s)", "few"].mean
    assert by["utilisation cpu", "few"].spread == 0
    assert comparison.seeds == [1, 2]


def test_the_page_stands_by_itself(comparison: Comparison) -> None:
    page = as_html(comparison, title="A & B")
    assert "<title>A &amp; B</title>" in page
    assert "&lt;many&gt;" in page
    assert "<many>" not in page
    assert "<svg" in page
    links = set(re.findall(r"(?:href|src|url\()\W*(\w+:[^'\")]*)", page))
    assert not links
    assert set(re.findall(r"https?://[^\s'\"<]*", page)) <= {"http://www.w3.org/2000/svg"}


def test_the_drain_has_figures_of_its_own(comparison: Comparison) -> None:
    by = {(each.name, each.variant): each.mean for each in comparison.figures}
    assert by["last arrival after (s)", "few"] == 3
    assert by["utilisation cpu", "few"] == pytest.approx(0.75)
    assert by["utilisation cpu (drain)", "<many>"] < by["utilisation cpu", "<many>"] + 0.75
    at_once = compare({"one": [simulate(scene(pod(0, 5)))]})
    assert not [each.name for each in at_once.figures if "drain" in each.name]


def test_waits_of_pods_without_a_node_are_lower_bounds() -> None:
    _, rows = wait_table(simulate(scene(pod(0, 1e6, cpu="3"), pod(10, cpu="3", tenant="late"), until=100.0)))
    waits = {row[0]: row for row in rows}
    assert waits["all"][-2:] == ["≥1m 30s", "1"]
    assert waits["tenant default"][-2:] == ["0s", "0"]


def test_json_and_csv_hold_all_figures(comparison: Comparison) -> None:
    assert msgspec.json.decode(as_json(comparison), type=Comparison) == comparison
    lines = as_csv(comparison).splitlines()
    assert lines[0].startswith("name,variant,mean,spread")
    assert len(lines) == 1 + len(comparison.figures)


def test_a_single_run_is_one_outcome_in_json() -> None:
    outcome = simulate(scene(pod(0, 5)))
    assert msgspec.json.decode(as_json(compare({"one": [outcome]})), type=Outcome) == outcome
