"""In kube-scheduler's place: the same flags, pages and log lines, and what happens when things are broken."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from kuberth.cli.run_flags import FLAGS
from kuberth.config.feature_gates import ELSEWHERE, GATES, Stage, gate_problems
from tests.e2e.assets import Assets
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import ADMIN, token_of
from tests.e2e.objects import configuration, node, pod
from tests.e2e.schedulers import KUBERTH, RunningScheduler
from tests.e2e.waiting import stays, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("kuberth_only")]

FLAG = re.compile(r"^ +(?:-\w, )?--([\w-]+)(?: (\S+))?(?:   |$)", re.M)
GATE = re.compile(r"kube:(\w+)=true\|false \((\w+) - default=(\w+)\)")
BEYOND = {"plugin", "page", "queue", "reload", "check-plans-every"}
"""Kuberth's own flags."""


@pytest.fixture(scope="module")
def upstream_help(assets: Assets) -> str:
    if assets.kube_scheduler is None:
        pytest.skip("no kube-scheduler: run `make envtest`")
    done = subprocess.run([assets.kube_scheduler, "--help"], capture_output=True, text=True, timeout=60)
    return done.stdout


def test_every_flag_of_kube_scheduler_is_known_with_its_arity(upstream_help: str) -> None:
    theirs = {name: not kind for name, kind in FLAG.findall(upstream_help)}
    theirs = {name: switch for name, switch in theirs.items() if name not in ("help", "version")}
    assert len(theirs) > 50
    assert {flag.name: flag.kind.is_switch for flag in FLAGS} == theirs


def test_every_gate_of_kube_scheduler_is_known(upstream_help: str) -> None:
    theirs = {name: (stage, default) for name, stage, default in GATE.findall(upstream_help)}
    assert len(theirs) > 100
    ours = {name: (gate.stage.value.upper(), str(gate.default).lower()) for name, gate in GATES.items()}
    assert {name: ours[name] for name in theirs.keys() & ours.keys()} == {
        name: theirs[name] for name in theirs.keys() & ours.keys()
    }
    assert theirs.keys() - ours.keys() - ELSEWHERE == {"AllAlpha", "AllBeta"}


LOCKED_THERE_ALONE = {
    "SchedulerQueueingHints",
    "PodSchedulingReadiness",
    "DynamicResourceAllocation",
    "DRAAdminAccess",
}
"""Locked in kube-scheduler and free here, where both behaviours exist."""


def test_a_locked_gate_is_refused_in_the_same_words(assets: Assets, upstream_help: str) -> None:
    assert assets.kube_scheduler is not None
    assert upstream_help
    for name in (name for name, gate in GATES.items() if gate.stage is Stage.GA):
        flags = [f"--feature-gates={name}=false", "--kubeconfig=/nonexistent"]
        done = subprocess.run([assets.kube_scheduler, *flags], capture_output=True, text=True, timeout=60)
        refused = f"cannot set feature gate {name} to false, feature is locked to true"
        problems = [error.message for error in gate_problems({name: False})]
        if refused not in done.stderr or name in LOCKED_THERE_ALONE:
            assert problems == [], name
        else:
            assert problems == [refused], name


def structured(scheduler: RunningScheduler, path: str, kind: str) -> dict[str, Any]:
    accept = f"application/yaml;g=config.k8s.io;v=v1beta1;as={kind}"
    status, text = scheduler.serves(path, token=token_of(ADMIN), accept=accept)
    assert status == 200, text
    tree: dict[str, Any] = yaml.safe_load(text)
    return tree


def test_flagz_and_statusz_say_what_kube_schedulers_say(start_scheduler: StartScheduler, peer: str) -> None:
    flags = [
        "--leader-elect=false",
        "--leader-elect-lease-duration=90s",
        "--authorization-always-allow-paths=/healthz,/readyz",
        "--authorization-always-allow-paths=/livez",
        "--feature-gates=NodeSwap=true,OpportunisticBatching=false",
        "--profiling",
        "--kube-api-qps=12.5",
        "--authentication-skip-lookup",
        "--requestheader-group-headers=a,b",
    ]
    ours = start_scheduler(configuration(), user=ADMIN, flags=flags)
    theirs = start_scheduler(configuration(), user=ADMIN, flags=flags, program=peer)
    pages = [structured(scheduler, "/flagz", "Flagz") for scheduler in (ours, theirs)]
    shown = [page.pop("flags") for page in pages]
    assert pages[0] == pages[1]
    assert shown[0].keys() - BEYOND == shown[1].keys()
    places = {"config", "secure-port"}
    assert {name: shown[0][name] for name in shown[1].keys() - places} == {
        name: shown[1][name] for name in shown[1].keys() - places
    }
    statuses = [structured(scheduler, "/statusz", "Statusz") for scheduler in (ours, theirs)]
    assert statuses[0].keys() == statuses[1].keys()
    for field in ("apiVersion", "kind", "metadata", "emulationVersion", "paths"):
        assert statuses[0][field] == statuses[1][field]


KLOG = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.-]+:\d+] (.*)")


def dumped(scheduler: RunningScheduler, pod_key: str) -> dict[str, str]:
    """Message → fields of klog's lines about one pod."""
    found: dict[str, str] = {}
    for line in scheduler.process.output().splitlines():
        match = KLOG.fullmatch(line)
        if match and f'pod="{pod_key}"' in line and match[2].startswith('"'):
            message, _, fields = match[2][1:].partition('" ')
            found[message] = fields
    return found


def _has(scheduler: RunningScheduler, words: str) -> bool:
    return words in scheduler.process.output()


def test_log_lines_about_a_pod_are_kube_schedulers(
    cluster: Cluster, start_scheduler: StartScheduler, peer: str
) -> None:
    cluster.create(node("n0"), node("n1"))
    lines = []
    for program in (KUBERTH, peer):
        scheduler = start_scheduler(configuration(), user=ADMIN, program=program, flags=["--v=10"])
        fits, big = f"fits-{program}", f"big-{program}"
        cluster.create(pod(fits, scheduler="kuberth"), pod(big, scheduler="kuberth", cpu="1000"))
        cluster.wait_bound(fits)
        for words in ("no fit", "Successfully bound"):
            wait_for(f"the line with {words}", partial(_has, scheduler, words))
        scheduler.kill()
        about = [dumped(scheduler, f"{cluster.namespace}/{name}") for name in (fits, big)]
        lines.append({**about[0], **about[1]})
    ours, theirs = lines
    for message in (
        "Attempting to schedule pod",
        "Plugin scored node for pod",
        "Calculated node's final score for pod",
        "Attempting to bind pod to node",
        "Successfully bound pod to node",
        "Unable to schedule pod; no fit; waiting",
        "Status after running PostFilter plugins for pod",
    ):
        # Its plugins have loggers with names of their own, which come first.
        keys = [re.findall(r"(?:^| )(?!logger)(\w+)=", fields[message]) for fields in (ours, theirs)]
        assert keys[0] == keys[1], message


def test_json_lines_name_pod_and_node(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    cluster.create(node("n0"))
    scheduler = start_scheduler(configuration(), flags=["--logging-format=json"])
    cluster.create(pod("p", scheduler="kuberth"))
    cluster.wait_bound("p")

    def line() -> dict[str, Any] | None:
        records = [json.loads(text) for text in scheduler.process.output().splitlines()]
        return next((record for record in records if record["msg"] == "Successfully bound pod to node"), None)

    record = wait_for("the line", line)
    assert {key: record[key] for key in ("v", "pod", "node", "evaluatedNodes", "feasibleNodes")} == {
        "v": 2,
        "pod": {"name": "p", "namespace": cluster.namespace},
        "node": "n0",
        "evaluatedNodes": 1,
        "feasibleNodes": 1,
    }


def test_a_start_without_an_api_server_waits_for_it(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    cluster.create(node("n0"), pod("p", scheduler="kuberth"))
    cluster.control_plane.kill_api_server()
    try:
        scheduler = start_scheduler(configuration(), ready=False)

        def answers() -> tuple[int, int] | None:
            try:
                return scheduler.serves("/livez")[0], scheduler.serves("/readyz")[0]
            except (OSError, http.client.HTTPException):
                return None

        assert wait_for("an answer", answers, explain=scheduler.process.tail) == (200, 500)
        stays("alive, not ready", lambda: scheduler.process.alive and answers() == (200, 500), seconds=3)
        assert "the API server is not reachable yet, retrying" in scheduler.process.output()
    finally:
        cluster.control_plane.start_api_server()
    scheduler.wait_ready()
    cluster.wait_bound("p")
    scheduler.leave()


BLOCKING = """
import time
from kuberth.framework import FilterPlugin


class Blocking(FilterPlugin):
    name = "Blocking"

    def filter(self, state, pod, node):
        time.sleep(3600)
"""


def test_a_blocking_plugin_is_logged_and_a_signal_still_ends_the_process(
    cluster: Cluster, start_scheduler: StartScheduler, tmp_path: Path
) -> None:
    (tmp_path / "blocking_plugin.py").write_text(BLOCKING, encoding="utf-8")
    profile = {"schedulerName": "kuberth", "plugins": {"filter": {"enabled": [{"name": "Blocking"}]}}}
    paths = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    scheduler = start_scheduler(
        configuration(profile), flags=["--plugin=blocking_plugin:Blocking"], env={"PYTHONPATH": paths}
    )
    cluster.create(node("n0"), pod("p", scheduler="kuberth"))
    wait_for(
        "the watchdog's word",
        lambda: "plugin Blocking is running at Filter and has not returned" in scheduler.process.output(),
        seconds=60,
        explain=scheduler.process.tail,
    )
    assert "blocking_plugin.py" in scheduler.process.output(), "the stack is logged"
    for path in ("/livez", "/readyz", "/healthz"):
        status, body = scheduler.serves(path)
        assert (status, "[-]scheduling-loop failed" in body) == (500, True), path
    scheduler.process.signal(signal.SIGTERM)
    assert scheduler.process.wait(30) == 1
    assert "ending without it" in scheduler.process.output()
