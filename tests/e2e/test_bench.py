"""`kuberth bench` on a real API server beside kube-scheduler, and Kubernetes' own workloads as they are."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kuberth.bench.cases import Workload, read_cases, upstream, upstream_folder
from kuberth.bench.objects import NodeMaker, PodMaker
from kuberth.bench.operations import (
    OPCODES,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    Operation,
    UpdateAny,
)
from kuberth.bench.templating import Template
from tests.e2e.assets import Assets
from tests.e2e.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("kuberth_only")]

CASES = """
- name: Tiny
  defaultPodTemplatePath: pod.yaml
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createPods, count: 4, podTemplatePath: low.yaml}
  - opcode: churn
    mode: recreate
    number: 1
    intervalMilliseconds: 100
    templatePaths: [service.yaml]
  - {opcode: createPods, countParam: $pods, collectMetrics: true}
  workloads:
  - name: 5Nodes
    featureGates: {SchedulerQueueingHints: true}
    threshold: 1
    params: {nodes: 5, pods: 40}
  - name: 5Nodes_old
    featureGates: {SchedulerQueueingHints: false}
    params: {nodes: 5, pods: 10}
"""
POD = "kind: Pod\napiVersion: v1\nmetadata: {generateName: p-}\nspec: {%scontainers: [{name: c, image: i}]}\n"
SERVICE = "kind: Service\napiVersion: v1\nmetadata: {generateName: s-}\nspec: {ports: [{port: 80}]}\n"
GO_ONLY = "nodedeclaredfeatures"
"""The folder whose nodes are completed by Go code of its test, by parameters that no operation has."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (
        ("cases.yaml", CASES),
        ("pod.yaml", POD % ""),
        ("low.yaml", POD % "priority: -5, "),
        ("service.yaml", SERVICE),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "tmp").mkdir()
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kuberth", "bench", *arguments]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder / "tmp")}


@pytest.fixture
def nothing_left(folder: Path) -> Iterator[None]:
    """Neither files nor programs outlive the command."""
    yield
    assert list((folder / "tmp").iterdir()) == []
    assert programs_of(folder) == []


def programs_of(folder: Path) -> list[str]:
    """Command lines in which the folder for temporary files is named."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(folder / "tmp") in line:
            found.append(line)
    return found


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("workload", ["Tiny/5Nodes", "Tiny/5Nodes_old"])
def test_beside_kube_scheduler_on_a_real_api_server(
    assets: Assets, peer: str, folder: Path, workload: str
) -> None:
    arguments = ("cases.yaml", workload, "--target=assets", f"--peer={peer}", "--peer=blind", "--output=json")
    done = subprocess.run(
        command(*arguments, "--plot=plot.svg", "--profile=flame.svg"),
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    rows = {row["scheduler"]: row for row in json.loads(done.stdout)["results"][0]["measurements"]}
    assert list(rows) == ["kuberth", "kube-scheduler", "blind"]
    for name, row in rows.items():
        assert row["scheduled"] == (40 if workload == "Tiny/5Nodes" else 10)
        assert row["podsPerSecond"]["average"] > 0
        assert row["peakMiB"] > 10
        assert row["cpuMsPerPod"] is not None
        assert (row["attemptMs"] is None) == (name == "blind"), "the blind binder reports no attempts"
    assert rows["kuberth"]["ratioToFirstPeer"] is not None
    assert (folder / "plot.svg").exists()
    assert " 0 samples" not in (folder / "flame.svg").read_text(encoding="utf-8")


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_an_interrupt_leaves_nothing_behind(assets: Assets, folder: Path, number: signal.Signals) -> None:
    text = CASES.replace(
        "- {opcode: createPods, countParam",
        "- {opcode: sleep, duration: 5m}\n  - {opcode: createPods, countParam",
    )
    (folder / "cases.yaml").write_text(text, encoding="utf-8")
    with subprocess.Popen(
        command("cases.yaml", "Tiny/5Nodes", "--target=assets"),
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_for(
                "the scheduler to run",
                lambda: any(" run " in line for line in programs_of(folder)),
                seconds=120,
                explain=lambda: str(process.poll()),
            )
            time.sleep(0.5)  # wherever it is by then
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 1
    assert "Aborted!" in said
    assert "Traceback" not in said


# Kubernetes' own


@pytest.fixture(scope="module")
def sources() -> Path:
    found = upstream_folder()
    if found is None:
        pytest.skip("no sources of Kubernetes: run `make envtest`")
    return found


def test_every_workload_of_kubernetes_is_read(sources: Path) -> None:
    workloads = upstream()
    assert len(workloads) > 200
    opcodes: Counter[str] = Counter()
    refused = set()
    for workload in workloads:
        opcodes.update(operation.opcode for operation in workload.case.operations)
        assert workload.steps()
        if workload.refusal():
            refused.add(workload.case.topic.partition("_")[0])
    assert opcodes.keys() <= OPCODES.keys()
    assert refused == {GO_ONLY}


def test_every_template_of_kubernetes_is_understood(sources: Path) -> None:
    tried = 0
    for workload in {workload.case.name: workload for workload in upstream()}.values():
        for path in templates(workload):
            assert Template.read(path).tree(3, 10)["kind"], path
            tried += 1
    assert tried > 100


def templates(workload: Workload) -> Iterator[Path]:
    case = workload.case
    if case.default_pod_template is not None:
        yield case.default_pod_template
    for operation in case.operations:
        for path in paths(operation):
            yield case.path(path)


def paths(operation: Operation) -> list[str]:
    found: list[str] = []
    match operation:
        case CreateNodes():
            found = [operation.node_template_path]
        case CreateNamespaces():
            found = [operation.namespace_template_path]
        case CreatePods():
            volumes = (
                operation.persistent_volume_template_path,
                operation.persistent_volume_claim_template_path,
            )
            found = [operation.pod_template_path, *volumes]
        case CreateAny() | UpdateAny():
            found = [operation.template_path]
        case Churn():
            found = list(operation.template_paths)
    return [path for path in found if path]


def test_objects_of_kubernetes_workloads_can_be_made(sources: Path) -> None:
    """Every node and pod of the smallest workload of each case."""
    rng = random.Random(0)
    for workload in {workload.case.name: workload for workload in reversed(upstream())}.values():
        for number, operation in enumerate(workload.steps()):
            if isinstance(operation, CreateNodes):
                assert NodeMaker(operation, workload.case, number, rng).make(1)[0]
            elif isinstance(operation, CreatePods):
                maker = PodMaker(operation, workload.case, "ns", admits=True)
                assert maker.pod(1)
                assert not maker.has_volumes or maker.volume(1)[1]


@pytest.mark.parametrize(
    "topic, name, threshold",
    [("misc", "SchedulingBasic", 270), ("affinity", "SchedulingPodAffinity", 35)],
)
def test_thresholds_of_kubernetes_are_found(sources: Path, topic: str, name: str, threshold: float) -> None:
    cases = read_cases(sources / topic / "performance-config.yaml")
    (case,) = [each for each in cases if each.name == name]
    assert threshold in {workload.threshold for workload in case.workloads}
