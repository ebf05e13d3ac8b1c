"""`kuberth explain` on files: what it prints, for people and for programs, and what it refuses."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from rich.console import Console

import kuberth.cli
from kuberth.cli import cli
from kuberth.cli.explain_display import print_explanation
from kuberth.errors import KuberthError
from tests.manifests import node_manifest, pod_manifest

TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


def deployment(name: str, cpu: str) -> dict[str, Any]:
    template = {"spec": pod_manifest(requests={"cpu": cpu})["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"template": template},
    }


@pytest.fixture
def dump(tmp_path: Path) -> str:
    items = [
        node_manifest("small", cpu="4"),
        node_manifest("gpu", cpu="8", taints=[TAINT]),
        pod_manifest("web", requests={"cpu": "3"}, nodeName="small"),
        pod_manifest("api", requests={"cpu": "1400m"}),
        deployment("store", "2"),
    ]
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["explain", *arguments])


def test_for_people(dump: str) -> None:
    result = run("pod", "api", "--cluster", dump)
    assert result.exit_code == 0, result.output
    lines = [line.strip() for line in result.output.splitlines()]
    assert lines[0] == "Pod default/api fits on none of 2 nodes."
    assert "NodeResourcesFit: Insufficient cpu on node small" in lines
    assert "400m cpu short on node small" in lines
    assert "a toleration of the taint dedicated=gpu:NoSchedule on node gpu" in lines
    assert "• scale the cpu request of container main from 1400m to 1" in lines
    assert "• remove the taint dedicated=gpu:NoSchedule from node gpu" in lines
    assert "\x1b" not in result.output  # no colours without a terminal
    assert all(line == line.rstrip() for line in result.output.splitlines())


def test_for_programs(dump: str) -> None:
    tree = json.loads(run("pod/api", "--cluster", dump, "-o", "json").output)
    assert (tree["kind"], tree["verdict"]) == ("Explanation", "rejected")
    assert tree["pod"] == {"namespace": "default", "name": "api"}


def test_why_a_pod_that_fits_is_still_pending(tmp_path: Path) -> None:
    reported = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulerError",
        "message": "no licence",
    }
    pod = {**pod_manifest("p"), "status": {"conditions": [reported]}}
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump_all([node_manifest("n1"), pod]))
    assert "Last attempt\n  failed: no licence\n" in run("pod", "p", "--cluster", str(file)).output


def test_missing_objects_come_before_proposals(tmp_path: Path) -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump_all([node_manifest("n1"), pod_manifest("p", volumes=volumes)]))
    output = run("pod", "p", "--cluster", str(file)).output
    assert "  PersistentVolumeClaim default/data does not exist\n" in output
    assert "no tested change helps; what is listed under Missing has to be there first" in output


def test_a_placed_pod_has_scores(dump: str) -> None:
    output = run("pod", "web", "--cluster", dump).output
    assert "Pod default/web is on node small." in output
    assert "small is the only feasible node" in output
    assert "NodeResourcesBalancedAllocation" in output


def test_a_workload_and_a_manifest(dump: str, tmp_path: Path) -> None:
    assert "Pod default/store fits on none of 2 nodes." in run("deployment/store", "--cluster", dump).output
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(pod_manifest("job", requests={"cpu": "1"})))
    assert (
        "Pod mine/job fits on 1 of 2 nodes." in run("-f", str(file), "-n", "mine", "--cluster", dump).output
    )


def test_a_configuration_of_ones_own(dump: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    disabled = {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file.write_text(yaml.safe_dump({**config, "profiles": [{"plugins": disabled}]}))
    output = run("pod", "api", "--cluster", dump, "--config", str(file)).output
    assert "Pod default/api fits on 1 of 2 nodes." in output


@pytest.mark.parametrize("width", [20, 40, 59, 60, 200])
def test_no_line_is_wider_than_the_terminal(dump: str, width: int) -> None:
    for name in ("api", "web"):
        tree = json.loads(run("pod", name, "--cluster", dump, "-o", "json").output)
        tree["waiting"] = {"queue": "backoff", "attempts": 2, "since": "2026-01-01T00:00:00Z"}
        text = io.StringIO()
        print_explanation(tree, Console(file=text, width=width), now=1_800_000_000.0)
        assert max(map(len, text.getvalue().splitlines())) <= width


@pytest.mark.parametrize(
    "preemption, expected",
    [
        pytest.param(
            {"nominatedNode": "n", "victims": ["d/q"]}, ["would clear node n by evicting d/q"], id="victims"
        ),
        pytest.param(
            {"nominatedNode": "n"},
            ["would clear node n without evicting more pods: some terminate already"],
            id="terminating-victims",
        ),
        pytest.param(
            {"nodesThatCouldHelp": 1, "nodesBeyondHelp": 2},
            [
                "does not help: on 1 node evicting pods of lower priority does not suffice, on 2 nodes no "
                "eviction helps"
            ],
            id="both",
        ),
        pytest.param(
            {"nodesBeyondHelp": 2}, ["does not help: on 2 nodes no eviction helps"], id="beyond-help"
        ),
        pytest.param(
            {"nodesThatCouldHelp": 1, "message": "not eligible due to preemptionPolicy=Never."},
            ["not eligible due to preemptionPolicy=Never."],
            id="not-eligible",
        ),
    ],
)
def test_preemption_in_words(preemption: dict[str, Any], expected: list[str]) -> None:
    empty = {"message": "", "nodesThatCouldHelp": 0, "nodesBeyondHelp": 0, "nominatedNode": "", "victims": []}
    tree = {"pod": {"namespace": "d", "name": "p"}, "verdict": "rejected", "nodes": 3}
    text = io.StringIO()
    print_explanation({**tree, "preemption": {**empty, **preemption}}, Console(file=text, width=200))
    lines = [line.strip() for line in text.getvalue().splitlines()]
    begin = lines.index("Preemption") + 1
    assert lines[begin : begin + len(expected) + 1] == [*expected, ""]


def test_nodes_are_named_on_request() -> None:
    tree = {
        "pod": {"namespace": "d", "name": "p"},
        "verdict": "rejected",
        "nodes": 5,
        "rejected": [
            {"plugin": "X", "code": "Error", "reasons": [], "nodes": ["n0", "n1", "n2", "n3", "n4"]}
        ],
    }
    texts = {}
    for names in (False, True):
        texts[names] = io.StringIO()
        print_explanation(tree, Console(file=texts[names], width=100), names=names)
    assert "X: Error on 5 nodes (n0, n1, n2, …)" in texts[False].getvalue()
    assert "X: Error on 5 nodes (n0, n1, n2, n3, n4)" in texts[True].getvalue()


def test_a_terminal_obeys_nothing_that_a_file_says() -> None:
    text = io.StringIO()
    misses = {"misses": ["\x1b]0;owned\x07"], "nodes": ["\x1b[31mred"]}
    pod_of_file = {"namespace": "d", "name": "\x1b[2Jp"}
    print_explanation(
        {"pod": pod_of_file, "verdict": "rejected", "nodes": 1, "nearest": [misses]},
        Console(file=text, width=80),
    )
    assert "\x1b" not in text.getvalue()
    assert "\x07" not in text.getvalue()


@pytest.mark.parametrize(
    "arguments, problem",
    [
        pytest.param(["pod", "ap"], "did you mean api?", id="unknown-pod"),
        pytest.param(["deployment/stor"], "did you mean store?", id="unknown-workload"),
        pytest.param(["service/web"], "there is no such kind with pods", id="unknown-kind"),
        pytest.param([], "give either a TARGET", id="nothing"),
        pytest.param(
            ["pod", "api", "--server", "https://x"], "--server explains only pods", id="server-and-files"
        ),
    ],
)
def test_what_it_refuses(dump: str, arguments: list[str], problem: str) -> None:
    result = run(*arguments, "--cluster", dump)
    assert result.exit_code != 0
    assert problem in f"{result.output}{result.exception}"
    assert result.exception is None or isinstance(result.exception, KuberthError | SystemExit)


def test_a_kubeconfig_that_is_not_there() -> None:
    result = run("pod", "p", "--kubeconfig", "/no/such/kubeconfig")
    assert isinstance(result.exception, KuberthError)
    assert "/no/such/kubeconfig" in str(result.exception)


def test_as_a_plugin_of_kubectl(
    dump: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl-kuberth", "explain", "pod", "api", "--cluster", dump])
    with pytest.raises(SystemExit) as end:
        kuberth.cli.kubectl_plugin()
    assert end.value.code == 0
    assert "Pod default/api fits on none of 2 nodes." in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["kubectl-kuberth", "explain", "--help"])
    with pytest.raises(SystemExit):
        kuberth.cli.kubectl_plugin()
    assert "kubectl kuberth explain" in capsys.readouterr().out
