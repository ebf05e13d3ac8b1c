"""`kuberth bench`: what it runs, what it shows, and what it says when something is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kuberth.bench.cases import ThresholdMetricSelector, shipped
from kuberth.bench.measurements import Distribution, ThresholdVerdict
from kuberth.bench.running import WorkloadResult
from kuberth.cli import main
from kuberth.cli.bench_run import notes, results_tables
from tests.unit.bench.test_measurements import measured

CASES = """
- name: Tiny
  workloadTemplate:
  - {opcode: createNodes, count: 2}
  - {opcode: createPods, countParam: $pods, namespace: measured, collectMetrics: true}
  workloads:
  - {name: two, params: {pods: 2}, labels: [short]}
  - {name: three, params: {pods: 3}, threshold: 100000}
  - {name: wrong, params: {pods: 3, nodes: 1}, labels: [broken]}
- name: Strange
  labels: [odd]
  workloadTemplate:
  - {opcode: createPods, count: 1, collectMetrics: true}
  workloads: [{name: one, params: {gpus: 4}}]
"""
PLUGIN = """
from kuberth.framework import ScorePlugin
class Flat(ScorePlugin):
    name = "Flat"
    def score(self, state, pod, node):
        return 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.yaml").write_text(CASES, encoding="utf-8")
    return tmp_path


def bench(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(args=["bench", *args])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return int(exit_.value.code or 0), said.out, said.err


def test_one_workload_as_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = bench(capsys, "cases.yaml", "Tiny/two")
    assert code == 0
    head, title, row, *rest = out.splitlines()
    assert head.split()[:3] == ["scheduler", "pods", "pods/s"]
    assert title.strip() == "Tiny/two"
    assert row.split()[:2] == ["kuberth", "2"]
    assert "too short to sample every second" in out
    assert "CPU and memory are those of the whole process" in out
    assert max(map(len, [head, title, row, *rest])) <= 80


def test_several_as_json_with_a_median(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("cases.yaml", "Tiny/two", "Tiny/three", "-o", "json", "--repeat", "2", "--plot", "p.svg")
    code, out, _ = bench(capsys, *args)
    assert code == 0
    tree = json.loads(out)
    assert (tree["target"], tree["repeat"]) == ("inproc", 2)
    found = [(each["workload"], each["measurements"][0]["scheduled"]) for each in tree["results"]]
    assert found == [("two", 2), ("three", 3)]
    assert tree["results"][1]["measurements"][0]["threshold"]["met"] is None, "too short to be sampled"
    assert (folder / "p.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_plugin_of_ones_own_and_a_profile(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "flat_score.py").write_text(PLUGIN, encoding="utf-8")
    (folder / "scheduler.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: Flat}]}}}]\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(folder))
    args = ("cases.yaml", "Tiny/two", "--plugin", "flat_score:Flat", "--scheduler-config", "scheduler.yaml")
    code, _, _ = bench(capsys, *args, "--profile", "flame.svg")
    assert code == 0
    assert "Kuberth, Tiny/two: " in (folder / "flame.svg").read_text(encoding="utf-8")


def test_the_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main_ended = bench_list(capsys, "cases.yaml")
    assert main_ended.splitlines() == [
        "Tiny/two  [short]",
        "Tiny/three  [threshold 100000]",
        "Tiny/wrong  [broken; cannot run: no operation takes $nodes; a name may be misspelled, or only the "
        "Go code of its test reads it]",
        "Strange/one  [odd; cannot run: no operation takes $gpus; a name may be misspelled, or only the "
        "Go code of its test reads it]",
    ]
    assert bench_list(capsys, "cases.yaml", "--label-filter", "short") == "Tiny/two  [short]\n"
    assert "Quick/100Nodes  [quick]" in bench_list(capsys)


def bench_list(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    code, out, _ = bench(capsys, "--list", *args)
    assert code == 0
    return out


@pytest.mark.parametrize(
    "args, expected",
    [
        (["gone.yaml"], "gone.yaml: No such file or directory"),
        (["cases.yaml", "Tini"], 'there is no case Tini; did you mean "Tiny"?'),
        (["cases.yaml", "Tiny/wrong"], "case Tiny: workload wrong: no operation takes $nodes"),
        (["cases.yaml", "Strange"], "case Strange: workload one: no operation takes $gpus"),
        (["cases.yaml", "Tiny/two", "--peer", "blind"], "needs an API server: add --target up or"),
        (["cases.yaml", "Tiny/two", "--timeout", "soon"], "'--timeout': expected a duration"),
        (["cases.yaml", "Tiny/two", "--plot", "p.gif"], "ends with .svg or .png"),
        (
            ["cases.yaml", "Tiny/two", "--profile", "p.txt"],
            "--profile p.txt: expected a file name that ends with .svg",
        ),
        (["cases.yaml", "Tiny/two", "--feature-gates", "Nope=true"], "unknown feature gate"),
        (["cases.yaml", "Tiny/two", "--plugin", "nowhere:X"], "nowhere"),
        (
            ["cases.yaml", "Tiny/two", "--target", "assets", "--assets", "."],
            "etcd is not in .; run `make envtest`",
        ),
        (["--upstream", "cases.yaml"], "both sources of workloads"),
        (["--upstream"], "name a CASE or CASE/WORKLOAD"),
        (["--upstream", "SchedulingBasic"], "`make envtest` brings its sources"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_one_line(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    expected: str,
) -> None:
    monkeypatch.setenv("GOMODCACHE", str(folder / "no-modules"))
    code, _, err = bench(capsys, *args)
    assert code in (1, 2)
    assert expected in err


def test_a_configuration_that_is_wrong_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.yaml").write_text("{parallelism: -1}")
    code, _, err = bench(capsys, "cases.yaml", "Tiny/two", "--scheduler-config", "mine.yaml")
    assert code == 1
    assert "mine.yaml: parallelism: must be greater than 0" in err


def test_workloads_that_cannot_run_are_left_out_of_many(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "cases.yaml").write_text(CASES.replace("labels: [odd]", "labels: [short]"), encoding="utf-8")
    code, out, err = bench(capsys, "cases.yaml", "--label-filter", "short")
    assert code == 0
    assert "Strange/one is skipped: no operation takes $gpus" in err
    assert "Tiny/two" in out


def test_one_that_fails_does_not_lose_the_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CASES.replace("{opcode: createNodes, count: 2}", "{opcode: createNodes, count: 0}")
    second = CASES.replace("name: Tiny", "name: Fine").split("- name: Strange")[0]
    (folder / "cases.yaml").write_text(text + second.lstrip(), encoding="utf-8")
    code, out, err = bench(capsys, "cases.yaml", "Tiny/two", "Fine/two", "--timeout", "3s")
    assert code == 1
    assert "case Tiny: workload two: op 1 (createPods): only 0 of 2 pods" in err
    assert "Fine/two" in out


@pytest.mark.parametrize("got, code", [(50.0, 1), (200.0, 0)])
def test_a_missed_threshold_sets_the_exit_code_on_request(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, got: float, code: int
) -> None:
    async def ran(workload: Any, *_: Any) -> WorkloadResult:
        verdict = ThresholdVerdict(100, ThresholdMetricSelector(), got)
        return WorkloadResult(workload, {"kuberth": [measured(got, verdict=verdict)]})

    monkeypatch.setattr("kuberth.cli.bench_run.run_workload", ran)
    assert bench(capsys, "cases.yaml", "Tiny/three", "--check-thresholds")[0] == code
    checked, out, _ = bench(capsys, "cases.yaml", "Tiny/three")
    assert checked == 0
    assert ("> 100 missed" if code else "> 100 met") in out


def test_the_table_has_ratios_and_a_dash_for_unknown_values() -> None:
    attempts = Distribution(2, 1, 2, 3, 4)
    found = WorkloadResult(
        shipped()[0],
        {
            "kuberth": [measured(300, attempts_ms=attempts)],
            "kube-scheduler": [measured(100, cpu_ms_per_pod=None)],
        },
    )
    cells = {
        str(column.header): [str(cell) for cell in column.cells]
        for table in results_tables([found])
        for column in table.columns
    }
    assert cells["scheduler"] == ["Quick/100Nodes", "  kuberth", "  kube-scheduler"]
    assert cells["ratio"] == ["", "3.00", ""]
    assert cells["CPU/pod"] == ["", "1.00ms", "–"]
    assert [cells[f"attempt p{number}"] for number in (50, 90, 99)] == [
        ["", "1ms", "–"],
        ["", "2ms", "–"],
        ["", "4ms", "–"],
    ]
    assert notes([found], target="assets") == []
