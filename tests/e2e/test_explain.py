"""`kuberth explain` on a real API server: beside the Go kube-scheduler, and asked of a Kuberth that runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kuberth.cli import cli
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import ADMIN, SECOND_SCHEDULER, token_of
from tests.e2e.objects import Object, configuration, node, pod
from tests.e2e.waiting import wait_for
from tests.manifests import HOSTNAME

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("kuberth_only")]

TAINT = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}


def explained(cluster: Cluster, *arguments: str, user: str = ADMIN) -> dict[str, Any]:
    kubeconfig = cluster.control_plane.kubeconfig(user)
    words = ["explain", *arguments, "-n", cluster.namespace, "--kubeconfig", str(kubeconfig), "-o", "json"]
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    tree: dict[str, Any] = json.loads(result.stdout)
    return tree


def config_file(folder: Path) -> str:
    file = folder / "explain.config.json"
    file.write_text(json.dumps(configuration()))
    return str(file)


def verbs_of(cluster: Cluster, user: str) -> set[str]:
    entries = cluster.control_plane.audit.entries(cluster.audit_start)
    return {entry["verb"] for _place, entry in entries if entry["user"]["username"] == user}


def failure_of(cluster: Cluster, name: str) -> Object:
    def first() -> Object | None:
        return next(iter(cluster.events("FailedScheduling", name=name)), None)

    return wait_for(f"the event of {name}", first)


def apart(app: str) -> dict[str, Any]:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(app: str) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }


REJECTED: dict[str, dict[str, Any]] = {
    "big": {"cpu": "3"},
    "picky": {"nodeSelector": {"disk": "ssd"}},
    "lonely": {"affinity": apart("web")},
    "even": {"labels": {"app": "web"}, "topologySpreadConstraints": [spread("web")]},
    "claiming": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}]},
    "greedy": {"cpu": "3", "memory": "64Gi", "nodeSelector": {"disk": "ssd"}},
}

PRE_FILTERED = "claiming"


def test_a_dry_run_names_the_reasons_of_kube_schedulers_event(
    cluster: Cluster, start_scheduler: StartScheduler, peer: str, tmp_path: Path
) -> None:
    cluster.create(node("a", cpu="2"), node("b", cpu="2"), node("reserved", taints=[TAINT]), node("closed"))
    cluster.patch_node("closed", {"spec": {"unschedulable": True}})
    start_scheduler(configuration(), program=peer, user=ADMIN)
    for name in ("a", "b"):
        there = {HOSTNAME: name}
        cluster.create(pod(f"web-{name}", scheduler="kuberth", labels={"app": "web"}, nodeSelector=there))
    cluster.wait_bound("web-a", "web-b")
    for name, spec in REJECTED.items():
        cluster.create(pod(name, scheduler="kuberth", **spec))
    config = config_file(tmp_path)
    for name in REJECTED:
        cluster.wait_unschedulable(name)
        event = failure_of(cluster, name)
        tree = explained(cluster, "pod", name, "--config", config, user=SECOND_SCHEDULER)
        assert tree["verdict"] == "rejected", name
        if name == PRE_FILTERED:
            # What kube-scheduler's PostFilter says of a pod that PreFilter did not get through is no reason.
            assert tree["message"].partition(". ")[0] == event["note"].partition(". ")[0]
        else:
            assert tree["message"] == event["note"], name
    assert verbs_of(cluster, SECOND_SCHEDULER) <= {"get", "list"}


def test_a_kuberth_that_runs_says_where_a_pod_waits(
    cluster: Cluster, start_scheduler: StartScheduler, tmp_path: Path
) -> None:
    cluster.create(node("a", cpu="2"))
    scheduler = start_scheduler(configuration())
    cluster.create(pod("big", scheduler="kuberth", cpu="3"))
    cluster.wait_unschedulable("big")
    door = ("--server", f"https://127.0.0.1:{scheduler.port}", "--insecure-skip-tls-verify")
    tree = explained(cluster, "pod", "big", *door)
    assert (tree["verdict"], tree["waiting"]["queue"]) == ("rejected", "unschedulable")
    assert tree["waiting"]["attempts"] >= 1
    assert [proposal["text"] for proposal in tree["proposals"]] == [
        "scale the cpu request of container main from 3 to 2"
    ]
    page = f"/explain?pod=big&namespace={cluster.namespace}"
    assert scheduler.serves(page)[0] in (401, 403)
    assert scheduler.serves(page, token=token_of(ADMIN))[0] == 200
    assert scheduler.serves("/explain?pod=gib", token=token_of(ADMIN))[0] == 404


def test_a_deployment_is_tried_by_its_template(
    cluster: Cluster, start_scheduler: StartScheduler, tmp_path: Path
) -> None:
    cluster.create(node("a", cpu="2"))
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("x", scheduler="kuberth", cpu="3")["spec"]}
    template["spec"].pop("schedulingGates")
    template["spec"]["terminationGracePeriodSeconds"] = 0
    cluster.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }
    )
    tree = explained(cluster, "deploy/web", "--config", config_file(tmp_path))
    assert (tree["verdict"], tree["nearest"][0]["misses"]) == ("rejected", ["1 cpu short"])
