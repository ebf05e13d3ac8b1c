"""`kuberth tune` from its words to its files."""

from __future__ import annotations

import html
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from examples.simulate.learn_packing import workload

from kuberth.cli import cli, tune_run
from kuberth.config import load
from kuberth.errors import ConfigError
from kuberth.simulation.traces import write_trace
from kuberth.simulation.tuning import Objective, TuningProgress

FEW = ("--trials", 2, "--seeds", 1, "--unseen-seeds", 2, "--processes", 1)


def ran(*words: Any) -> Result:
    return CliRunner().invoke(cli, ["tune", *map(str, words)], catch_exceptions=True)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two hours in which packing helps."""
    file = tmp_path / "pods.jsonl"
    file.write_text(write_trace(workload(1).arrivals))
    return file


def test_a_better_configuration_is_written_and_what_it_changes_is_shown(tmp_path: Path, trace: Path) -> None:
    out, report = tmp_path / "tuned.yaml", tmp_path / "r.html"
    words = ("--nodes", 4, "--trace", trace, *FEW, "--unseen-seeds", 5)
    done = ran(*words, "--output-file", out, "--report", report)
    assert done.exit_code == 0, done.output
    assert "the second half of the trace, which the search has not seen" in done.stdout
    assert "tuned-1: -" in done.stdout
    assert "What else changes" in done.stdout
    assert "kuberth tune: 2 of 2 configurations, best difference so far -" in done.stderr
    assert load(out).profiles[0].plugins is not None
    assert out.read_text().startswith("# wait-mean: -")
    page = report.read_text()
    assert page.startswith("<!doctype html>")
    assert "<title>Kuberth tune</title>" in page
    for line in done.stdout.splitlines()[:1]:
        assert html.escape(line) in page
    assert html.escape(out.read_text()) in page, "the configuration"
    assert "Intervals of the differences" in page
    assert "tuned-1: what else changes" in page
    assert not re.search(r"(?:src|href)=", page), "it loads nothing"


def test_nothing_better_is_said_and_nothing_written(tmp_path: Path) -> None:
    trace = tmp_path / "pods.csv"
    trace.write_text("arrival,duration,cpu\n0,10,1\n5,10,1\n9,10,1\n")
    out = tmp_path / "tuned.yaml"
    report = tmp_path / "r.html"
    done = ran("--nodes", 2, "--trace", trace, *FEW, "--output-file", out, "--report", report)
    assert done.exit_code == 0, done.output
    assert "No configuration is better than the base." in done.stdout
    assert "No configuration is better than the base." in report.read_text()
    assert not out.exists()


def test_pods_that_fit_under_no_configuration_are_mentioned(tmp_path: Path) -> None:
    trace = tmp_path / "pods.csv"
    trace.write_text("arrival,duration,cpu\n" + "".join(f"{at},10,{1 + 99 * (at % 2)}\n" for at in range(8)))
    report = tmp_path / "r.html"
    done = ran("--nodes", 2, "--trace", trace, *FEW, "--report", report)
    problem = "2 of 4 pods have no node at the end of a run, most often because of: Insufficient cpu."
    assert problem in done.stdout
    assert problem in report.read_text()


def test_json_is_the_same_for_the_same_seed(trace: Path) -> None:
    words = ("--nodes", 4, "--trace", trace, *FEW, "-o", "json", "--objective", "wait-p90", "--seed", 5)
    first, second = ran(*words), ran(*words)
    assert first.stdout == second.stdout
    assert json.loads(first.stdout)["candidates"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupt_says_how_to_continue(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    def interrupt(_objective: Objective, _progress: TuningProgress) -> None:
        signal.raise_signal(number)

    words = ("--nodes", 4, "--trace", trace, *FEW, "--state", tmp_path / "state")
    with monkeypatch.context() as patched:
        patched.setattr(tune_run, "_show", interrupt)
        done = ran(*words)
    assert done.exit_code == 130
    assert f"the same command continues from {tmp_path / 'state'}" in done.stderr
    assert ran(*words).exit_code == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--generate", "services", *FEW), "give a cluster"),
        (("--nodes", "2", "--generate", "services", "--output-file", "a.txt"), "ends with .yaml"),
        (("--nodes", "2", "--generate", "services", "--report", "a.pdf"), "ends with .html"),
        (("--nodes", "2", "--generate", "services", "--search", "NodeName"), "PLUGIN.ARGUMENT=LOW..HIGH"),
        (("--nodes", "2", "--generate", "services", "--search", "A.b=1..x"), "PLUGIN.ARGUMENT=LOW..HIGH"),
        (("--nodes", "2", "--generate", "services", "--search", "A.b=0..inf"), "PLUGIN.ARGUMENT=LOW..HIGH"),
    ],
)
def test_words_that_do_not_go_together(words: tuple[Any, ...], expected: str) -> None:
    done = ran(*words)
    assert done.exit_code == 2
    assert expected in done.output


def test_waits_are_shown_as_durations(trace: Path) -> None:
    done = ran("--nodes", 4, "--trace", trace, *FEW, "--unseen-seeds", 5)
    words = r"tuned-1: -(\d+m )?\d+s \(95 %: -(\d+m )?\d+s to -(\d+m )?\d+s\), better"
    assert re.search(words, done.stdout), done.stdout
    assert re.search(r"the base has (\d+m )?\d+s\.", done.stdout)
    assert re.search(r"best difference so far -(\d+m )?\d+s$", done.stderr, re.MULTILINE)


def test_weights_of_own_plugins_and_arguments_are_searched(tmp_path: Path, trace: Path) -> None:
    config, state = tmp_path / "config.yaml", tmp_path / "state"
    config.write_text(
        "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, profiles: "
        "[{plugins: {multiPoint: {enabled: [{name: PreferQuietNodes, weight: 3}]}}}]}"
    )
    plugin = ("--plugin", "examples.prefer_quiet_nodes:PreferQuietNodes")
    search = ("--search", "InterPodAffinity.hardPodAffinityWeight=0..100")
    done = ran("--nodes", 4, "--trace", trace, *FEW, *plugin, "--config", config, *search, "--state", state)
    assert done.exit_code == 0, done.output
    _identity, _base, *tried = state.read_text().splitlines()
    drawn = [json.loads(line)["parameters"] for line in tried]
    assert [each["PreferQuietNodes"] for each in drawn] == [3, 3], "the first ones begin with the base's"
    assert all(0 <= each["argument InterPodAffinity.hardPodAffinityWeight"] <= 100 for each in drawn)


def test_a_plugin_that_is_not_enabled_is_said_to_do_nothing(trace: Path) -> None:
    plugin = ("--plugin", "examples.prefer_quiet_nodes:PreferQuietNodes")
    done = ran("--nodes", 4, "--trace", trace, *FEW, *plugin)
    assert "kuberth tune: plugin PreferQuietNodes" in done.stderr
    assert "is enabled in no profile" in done.stderr


def test_an_unknown_objective() -> None:
    done = ran("--nodes", 2, "--generate", "services", "--pods", 2, "--objective", "speed")
    assert isinstance(done.exception, ConfigError)
    assert "wait-p99[@PRIORITY]" in str(done.exception)
