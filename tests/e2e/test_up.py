"""`kuberth up` as its user meets it: a program, kubectl, and the Go kube-scheduler in place of ours."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.assets import Assets
from tests.e2e.processes import Process
from tests.e2e.waiting import wait_for

pytestmark = pytest.mark.e2e

SCHEDULER_CONFIG: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"qps": 500, "burst": 1000},
    "leaderElection": {"leaderElect": True},
}


class Up:
    """A running `kuberth up` and a kubectl for it."""

    def __init__(self, assets: Assets, folder: Path, *flags: str) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._kubectl = assets.kubectl
        self.kubeconfig.unlink(missing_ok=True)
        command = [sys.executable, "-m", "kuberth", "up", "--port", "0"]
        command += ["--kubeconfig-out", str(self.kubeconfig), *flags]
        log = folder / "up.log"
        log.unlink(missing_ok=True)
        self.process = Process("kuberth up", command, log=log)
        wait_for("the cluster to be ready", self._is_ready, seconds=30, explain=self.process.tail)

    def _is_ready(self) -> bool:
        assert self.process.alive, self.process.tail()
        return "Ready." in self.process.output()

    def kubectl(self, *args: str, check: bool = True, seconds: float = 60) -> str:
        done = subprocess.run(
            [str(self._kubectl), "--kubeconfig", str(self.kubeconfig), *args],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert not check or done.returncode == 0, (
            f"kubectl {' '.join(args)}: {done.stderr}\n{self.process.tail()}"
        )
        return done.stdout + ("" if check else done.stderr)

    def items(self, *args: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", *args, "-o", "json"))["items"]
        return found

    def end(self) -> int:
        self.process.signal(signal.SIGINT)
        return self.process.wait(20)


StartUp = Callable[..., Up]


@pytest.fixture
def start_up(assets: Assets, tmp_path: Path) -> Iterator[StartUp]:
    started: list[Up] = []

    def start(*flags: str) -> Up:
        started.append(Up(assets, tmp_path, *flags))
        return started[-1]

    yield start
    for up in started:
        if up.process.alive:
            up.process.kill()


def running(up: Up, count: int, *args: str) -> Callable[[], bool]:
    def all_running() -> bool:
        pods = up.items("pods", *args)
        return len(pods) == count and all(pod["status"].get("phase") == "Running" for pod in pods)

    return all_running


def test_a_deployment_does_what_people_expect(start_up: StartUp) -> None:
    up = start_up("--memory", "--nodes", "6")
    up.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=20")
    output = up.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert "successfully rolled out" in output
    assert running(up, 20)()
    assert len({pod["spec"]["nodeName"] for pod in up.items("pods")}) == 6
    up.kubectl("scale", "deployment/web", "--replicas=3")
    wait_for("three pods to be left", running(up, 3))
    up.kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    wait_for(
        "the new image everywhere",
        lambda: {pod["spec"]["containers"][0]["image"] for pod in up.items("pods")} == {"nginx:2"},
    )
    node = up.items("pods")[0]["spec"]["nodeName"]
    up.kubectl("drain", node, "--ignore-daemonsets", "--force", "--timeout=60s")
    wait_for(
        "the node to be empty",
        lambda: running(up, 3)() and all(pod["spec"]["nodeName"] != node for pod in up.items("pods")),
    )
    assert "SchedulingDisabled" in up.kubectl("get", "node", node)
    up.kubectl("delete", "deployment", "web")
    wait_for("everything to be gone", lambda: not up.items("pods") and not up.items("replicasets"))
    assert up.end() == 0


def test_rollout_status_history_and_undo(start_up: StartUp) -> None:
    up = start_up("--memory", "--nodes", "2")
    up.kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=2")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    up.kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    up.kubectl("annotate", "deployment/web", "kubernetes.io/change-cause=the second")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=60s")

    def history() -> list[list[str]]:
        return [
            line.split(maxsplit=1) for line in up.kubectl("rollout", "history", "deployment/web").split("\n")
        ]

    wait_for("the cause to be noted", lambda: ["2", "the second"] in history())
    assert "nginx:1" in up.kubectl("rollout", "history", "deployment/web", "--revision=1")
    assert "rolled back" in up.kubectl("rollout", "undo", "deployment/web")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    template = json.loads(up.kubectl("get", "deployment", "web", "-o", "json"))["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "nginx:1"
    up.kubectl("rollout", "restart", "deployment/web")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    up.kubectl("rollout", "pause", "deployment/web")
    assert "paused" in up.kubectl("rollout", "undo", "deployment/web", check=False)
    up.kubectl("rollout", "resume", "deployment/web")
    up.kubectl("wait", "deployment/web", "--for=condition=Available", "--timeout=60s")
    assert up.end() == 0


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_deletion_takes_dependents_along_or_leaves_them(start_up: StartUp, cascade: str) -> None:
    up = start_up("--memory", "--nodes", "2")
    up.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    up.kubectl("delete", "deployment", "web", f"--cascade={cascade}", "--timeout=60s")
    assert not up.items("deployments")
    if cascade != "orphan":
        wait_for("everything to be gone", lambda: not up.items("pods") and not up.items("replicasets"))
        return
    (left,) = up.items("replicasets")
    assert "ownerReferences" not in left["metadata"]
    assert running(up, 2)()


def test_what_kubectl_prints(start_up: StartUp) -> None:
    up = start_up("--memory", "--nodes", "2")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "gated"},
        "spec": {
            "schedulingGates": [{"name": "example.com/wait"}],
            "containers": [{"name": "main", "image": "none"}],
        },
    }
    manifest = up.kubeconfig.with_name("pod.json")
    manifest.write_text(json.dumps(pod), encoding="utf-8")
    up.kubectl("apply", "-f", str(manifest))
    assert up.kubectl("get", "pods").split()[:7] == [
        "NAME",
        "READY",
        "STATUS",
        "RESTARTS",
        "AGE",
        "gated",
        "0/1",
    ]
    assert "SchedulingGated" in up.kubectl("get", "pods")
    up.kubectl(
        "patch", "pod", "gated", "--type=json", "-p", '[{"op": "remove", "path": "/spec/schedulingGates"}]'
    )
    up.kubectl("wait", "--for=condition=Ready", "pod/gated", "--timeout=30s")
    assert "Running" in up.kubectl("get", "pods", "-o", "wide")
    assert "Successfully assigned default/gated" in up.kubectl("describe", "pod", "gated")


def test_a_restart_goes_on_where_it_ended(start_up: StartUp, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"), "--nodes", "2")
    up = start_up(*data)
    up.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=4")
    wait_for("the pods to run", running(up, 4))
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in up.items("pods")}
    up.process.kill()
    up = start_up(*data)
    wait_for("the pods to be there again", running(up, 4))
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in up.items("pods")} == before
    assert up.end() == 0


def test_manifests_are_applied_and_jobs_finish(start_up: StartUp, tmp_path: Path) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text(
        """
apiVersion: batch/v1
kind: Job
metadata: {name: sum, namespace: default}
spec:
  completions: 3
  parallelism: 2
  template:
    metadata: {annotations: {kuberth.dev/run-seconds: "0.2"}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: none}]
""",
        encoding="utf-8",
    )
    up = start_up("--memory", "-f", str(manifest))
    up.kubectl("wait", "--for=condition=Complete", "job/sum", "--timeout=60s")


@pytest.mark.parametrize("whose", ["kube-scheduler", "kuberth"])
def test_a_scheduler_over_https_places_a_thousand_pods(
    start_up: StartUp, assets: Assets, tmp_path: Path, whose: str
) -> None:
    """The Go kube-scheduler runs against this server unchanged; ours gives the same counts."""
    if whose == "kube-scheduler" and assets.kube_scheduler is None:
        pytest.skip("no kube-scheduler: run `make envtest`")
    up = start_up("--memory", "--nodes", "500", "--no-scheduler")
    config = tmp_path / "scheduler.json"
    config.write_text(
        json.dumps(
            {
                **SCHEDULER_CONFIG,
                "clientConnection": {
                    **SCHEDULER_CONFIG["clientConnection"],
                    "kubeconfig": str(up.kubeconfig),
                },
            }
        ),
        encoding="utf-8",
    )
    program = (
        [str(assets.kube_scheduler)]
        if whose == "kube-scheduler"
        else [sys.executable, "-m", "kuberth", "run"]
    )
    scheduler = Process(
        whose, [*program, "--config", str(config), "--secure-port", "0"], log=tmp_path / f"{whose}.log"
    )
    try:
        up.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=1000")
        started = time.monotonic()
        wait_for("1,000 pods to run", running(up, 1000), seconds=150, every=1.0, explain=scheduler.tail)
        print(f"{whose}: 1,000 pods running after {time.monotonic() - started:.1f} s")
        per_node: dict[str, int] = {}
        for pod in up.items("pods"):
            per_node[pod["spec"]["nodeName"]] = per_node.get(pod["spec"]["nodeName"], 0) + 1
        assert sum(per_node.values()) == 1000
        assert max(per_node.values()) <= 4
        assert up.kubectl("get", "lease", "-n", "kube-system", "kube-scheduler")
    finally:
        scheduler.kill()
