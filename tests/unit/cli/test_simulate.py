"""`kuberth simulate` from its words to its files."""

from __future__ import annotations

import contextlib
import json
import signal
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from kuberth.cli import cli, simulate_run
from kuberth.cli.simulate import _spread
from kuberth.cli.simulate_run import LINE_SECONDS, Throttle, _print_line
from kuberth.errors import ConfigError
from kuberth.simulation.generating import generate
from kuberth.testing import FakeClock

PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
SPREAD = PACKED.replace("MostAllocated", "LeastAllocated")
SMALL = ("--nodes", "3", "--generate", "services", "--pods", "20", "--days", "0.05")


def ran(*words: Any) -> Result:
    return CliRunner().invoke(cli, ["simulate", *map(str, words)], catch_exceptions=True)


def test_two_runs_with_one_seed_are_byte_equal(tmp_path: Path) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file in files:
        assert ran(*SMALL, "--seed", 3, "--output-json", file).exit_code == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    assert json.loads(files[0].read_bytes())["pods"]["arrived"] >= 20


def test_a_run_ends_at_a_duration() -> None:
    done = ran(*SMALL, "--until", "10m", "-o", "json")
    assert done.exit_code == 0, done.output
    assert 0 < json.loads(done.stdout)["seconds"] <= 600
    assert "expected a duration" in ran(*SMALL, "--until", "soon").output


def test_a_recording_ends_after_a_duration(tmp_path: Path) -> None:
    with patch("kuberth.cli.simulate_run._record", return_value=[]) as recording:
        done = ran("record", "--for", "90s", "--output-file", tmp_path / "pods.jsonl")
    assert done.exit_code == 0, done.output
    assert recording.call_args.args[2] == timedelta(seconds=90)


def test_arrivals_are_drawn_once_for_each_seed() -> None:
    with patch("kuberth.simulation.experiments.generate", wraps=generate) as drawing:
        assert ran(*SMALL, "--seed", 3, "--seeds", 2).exit_code == 0
    assert [call.kwargs["seed"] for call in drawing.mock_calls] == [3, 4]


def test_configurations_are_compared_over_the_same_arrivals(tmp_path: Path) -> None:
    (tmp_path / "packed.yaml").write_text(PACKED)
    (tmp_path / "spread.yaml").write_text(SPREAD)
    (tmp_path / "shapes.yaml").write_text("- {name: node, count: 2}\n")
    report, table, plot = tmp_path / "r.html", tmp_path / "f.csv", tmp_path / "p.svg"
    files = [tmp_path / f"{name}.yaml" for name in ("packed", "spread", "shapes")]
    done = ran(
        *SMALL, "--compare", *files, "--seeds", 2, "--report", report, "--output-csv", table, "--plot", plot
    )
    assert done.exit_code == 0, done.output
    assert "packed" in done.output
    assert report.read_text().startswith("<!doctype html>")
    assert table.read_text().count("spread,") > 5
    assert plot.read_text().startswith("<")


def test_a_sweep_answers_as_the_plain_command_does(tmp_path: Path) -> None:
    (tmp_path / "packed.yaml").write_text(PACKED)
    words = (*SMALL, "-o", "json", "--seeds", 2)
    plain = ran(*words, "--compare", tmp_path / "packed.yaml")
    swept = ran("sweep", *words, "--config", tmp_path / "packed.yaml", "--processes", 1)
    assert swept.exit_code == 0, swept.output
    assert swept.stdout == plain.stdout


def test_an_interrupt_prints_and_writes_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def show(done: int, _seconds: float) -> None:
        if done == 10 and not interrupts:
            interrupts.append(done)
            signal.raise_signal(signal.SIGINT)

    interrupts: list[int] = []
    monkeypatch.setattr(simulate_run, "shown_progress", lambda *_: contextlib.nullcontext(show))
    done = ran(*SMALL, "--output-json", tmp_path / "o.json")
    assert done.exit_code == 130
    assert "pods placed" in done.stdout
    assert "interrupted: the figures are of the run so far" in done.stderr
    written = json.loads((tmp_path / "o.json").read_bytes())
    assert written["interrupted"]
    assert 10 <= written["pods"]["arrived"] < 20


def test_progress_without_a_terminal_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()
    lines = Throttle(partial(_print_line, "pods", 1000), LINE_SECONDS, clock=clock)
    for number in range(1, 1000):
        clock.advance(0.01)
        lines.show(number, 60.0 * number)
    assert capsys.readouterr().err == "kuberth simulate: 500 of 1000 pods, 8h 20m simulated\n"


def test_fit(tmp_path: Path) -> None:
    pod = tmp_path / "pod.jsonl"
    pod.write_text('{"arrival": 0, "requests": {"cpu": "3"}}\n')
    done = ran("--nodes", 2, "--fit", pod, "--fit-pods", 6)
    assert done.exit_code == 0, done.output
    assert "4 more of this pod fit on 2 nodes." in done.output
    assert "6 pods: 1 more node of shape as-node-1 (2 pods on an empty node)" in done.output


def test_nodes_come_and_go(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("arrival,duration,cpu\n" + "".join(f"{number},900,8\n" for number in range(4)))

    def found(*words: object) -> Any:
        done = ran("--nodes", 1, "--trace", trace, "-o", "json", *words)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    alone, more = found(), found("--autoscale", 2, "--shape", "cpu=8")
    assert more["seconds"] < alone["seconds"]
    interrupted = found("--spot", 200)
    assert interrupted["pods"]["arrived"] > 4, "evicted pods are created again"


def test_a_trace_that_is_printed_can_be_played(tmp_path: Path) -> None:
    drawn = ran("trace", "services", "--pods", 5, "--days", "0.01")
    (tmp_path / "t.jsonl").write_text(drawn.stdout)
    done = ran("--nodes", 2, "--trace", tmp_path / "t.jsonl", "-o", "json")
    assert json.loads(done.stdout)["pods"]["finished"] == 5


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "give a workload"),
        (("--generate", "gpu"), "give a cluster"),
        (("--nodes", "2", "--generate", "gpu", "--trace", "{trace}"), "give a workload"),
        (("--generate", "gpu", "--shape", "cpu=1", "--cluster", "{trace}"), "--shape needs --nodes"),
        (("--nodes", "2", "--fit", "{trace}", "--spot", "2"), "omit --autoscale and --spot"),
    ],
)
def test_words_that_do_not_go_together(tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("arrival\n1\n")
    done = ran(*(word.format(trace=trace) for word in words))
    assert done.exit_code == 2
    assert expected in done.output


def test_a_broken_trace_is_reported_and_nothing_is_written(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("arrival\n1\n-1\n")
    done = ran("--nodes", 1, "--trace", trace, "--output-json", tmp_path / "o.json")
    assert isinstance(done.exception, ConfigError)
    assert "t.csv:3:1" in str(done.exception)
    assert [each.name for each in tmp_path.iterdir()] == ["t.csv"]


def test_compare_takes_as_many_files_as_follow() -> None:
    words = ["--nodes", "3", "--compare", "a", "b", "--seed", "1", "sweep", "--config", "c"]
    assert _spread(words, "--compare", {"sweep"}) == [
        *("--nodes", "3", "--compare", "a", "--compare", "b", "--seed", "1", "sweep", "--config", "c")
    ]
