"""The Helm chart is what deploy/ says with kustomize, refuses wrong values, and works on a real API server.

Helm is the real one (`make envtest`); without it these tests are skipped.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hack.walkthrough import commands

import kuberth
from kuberth.config import load
from tests.e2e.assets import REPOSITORY, Assets
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import ADMIN, CHART, ControlPlane
from tests.e2e.objects import Object, node
from tests.e2e.waiting import wait_for

pytestmark = pytest.mark.e2e

FOLDER = REPOSITORY / "deploy" / "chart" / "kuberth"
RELEASE, NAMESPACE = "chart", "chart-system"
NAMESPACES = {"second-scheduler": "kuberth-system", "replace": "kube-system"}
SERVICE_MONITORS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "names": {"kind": "ServiceMonitor", "plural": "servicemonitors"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}

Helm = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def helm(assets: Assets, control_plane: ControlPlane, tmp_path: Path) -> Helm:
    """Runs helm as admin; a failure is the test's unless it asks for the result (`check=False`)."""
    program = assets.helm
    if program is None:
        pytest.skip("no helm: run `make envtest`")

    def run(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(program), *words],
            capture_output=True,
            text=True,
            timeout=120,
            env={
                "HOME": str(tmp_path),
                "PATH": "/usr/bin:/bin",
                "KUBECONFIG": str(control_plane.kubeconfig(ADMIN)),
            },
        )
        assert not check or done.returncode == 0, f"helm {' '.join(words)}: {done.stderr or done.stdout}"
        return done

    return run


def rendered(
    helm: Helm, *flags: str, name: str = "kuberth", namespace: str = "kuberth-system"
) -> list[Object]:
    printed = helm("template", name, str(FOLDER), f"--namespace={namespace}", *flags).stdout
    return [tree for tree in yaml.safe_load_all(printed) if tree]


def one(objects: Sequence[Object], kind: str, name: str = "") -> Object:
    [found] = [tree for tree in objects if tree["kind"] == kind and name in tree["metadata"]["name"]]
    return found


def test_lint(helm: Helm) -> None:
    for mode in NAMESPACES:
        printed = helm("lint", "--strict", str(FOLDER), f"--set=mode={mode}").stdout
        assert "0 chart(s) failed" in printed


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.safe_load((FOLDER / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == kuberth.__version__


# Beside kustomize


def comparable(objects: Sequence[Object]) -> dict[tuple[str, str], Object]:
    """Objects by kind and name, without what either tool adds for itself and names in one order."""
    found = {}
    for tree in objects:
        if tree["kind"] == "Namespace":
            continue  # helm creates the release's namespace by a flag
        text = json.dumps(tree)
        text = re.sub(r"kuberth-config(-default)?(-[a-z0-9]{10})|kuberth(-default)?-config\b", "CONFIG", text)
        text = re.sub(r"\bkuberth-([a-z]+(?:-[a-z]+)*)-default\b", r"kuberth-default-\1", text)
        plain: Object = json.loads(text)
        strip(plain)
        if plain["kind"] == "FlowSchema":
            plain["metadata"].pop("namespace", None)  # kustomize does not know that it has none
        if plain["kind"] == "ConfigMap":
            plain["data"] = {name: yaml.safe_load(value) for name, value in plain["data"].items()}
        found[plain["kind"], plain["metadata"]["name"]] = plain
    return found


def strip(tree: Any) -> None:
    """Remove labels and annotations that the tools add, and the pull policy, whose default is the same."""
    if isinstance(tree, dict):
        for name in ("labels", "matchLabels", "annotations"):
            if isinstance(tree.get(name), dict):
                kept = {"app.kubernetes.io/name": tree[name].get("app.kubernetes.io/name")}
                tree[name] = {key: value for key, value in kept.items() if value}
                if not tree[name]:
                    del tree[name]
        if tree.get("imagePullPolicy") == "IfNotPresent":
            del tree["imagePullPolicy"]
    for value in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        strip(value)


@pytest.mark.parametrize("mode", NAMESPACES)
def test_the_chart_and_kustomize_make_the_same_objects(
    helm: Helm, control_plane: ControlPlane, mode: str
) -> None:
    printed = control_plane.kubectl("kustomize", str(REPOSITORY / "deploy" / mode))
    from_kustomize = comparable([tree for tree in yaml.safe_load_all(printed) if tree])
    from_chart = comparable(rendered(helm, f"--set=mode={mode}", namespace=NAMESPACES[mode]))
    assert from_chart.keys() == from_kustomize.keys()
    assert len(from_chart) == 10
    for key, tree in from_chart.items():
        assert tree == from_kustomize[key], key


# Values


@pytest.mark.parametrize(
    "flags, finding",
    [
        pytest.param(["--set=mode=both"], "mode", id="mode"),
        pytest.param(["--set=replicas=0"], "replicas", id="no-replicas"),
        pytest.param(["--set=replica=2"], "replica", id="misspelt"),
        pytest.param(["--set=image.digest=latest"], "digest", id="digest"),
        pytest.param(["--set=extraArgs={page}"], "extraArgs", id="no-flag"),
        pytest.param(["--set=configuration.kind=Other"], "kind", id="another-kind"),
        pytest.param(["--set=serviceMonitor.interval=often"], "interval", id="interval"),
        pytest.param(["--kube-version=1.28.0"], "kubeVersion", id="old-kubernetes"),
    ],
)
def test_wrong_values_are_refused(helm: Helm, flags: list[str], finding: str) -> None:
    done = helm("template", "kuberth", str(FOLDER), *flags, check=False)
    assert done.returncode != 0
    assert finding in done.stderr


def test_values_reach_the_objects(helm: Helm) -> None:
    flags = [
        "--set=schedulerName=mine,extraArgs={--page,-v=4},image.digest=sha256:" + "0" * 64,
        "--set=image.repository=registry.example/kuberth,resources.limits.memory=2Gi,nodeSelector.pool=system",
        '--set-json=configuration={"parallelism":4,"leaderElection":{"leaseDuration":"30s"}}',
        '--set-json=rbac.extraRules=[{"apiGroups":["example.com"],"resources":["quotas"],"verbs":["list"]}]',
        "--set=podDisruptionBudget.minAvailable=50%,podLabels.team=a,podAnnotations.note=b",
        '--set-json=tolerations=[{"key":"dedicated","operator":"Exists"}]',
    ]
    objects = rendered(helm, *flags)
    template = one(objects, "Deployment")["spec"]["template"]
    container = template["spec"]["containers"][0]
    assert container["image"] == "registry.example/kuberth@sha256:" + "0" * 64
    assert container["args"][-2:] == ["--page", "-v=4"]
    assert container["resources"] == {
        "limits": {"memory": "2Gi"},
        "requests": {"cpu": "100m", "memory": "256Mi"},
    }
    assert template["spec"]["nodeSelector"] == {"pool": "system"}
    assert template["spec"]["tolerations"] == [{"key": "dedicated", "operator": "Exists"}]
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["metadata"]["annotations"]["note"] == "b"
    assert one(objects, "ClusterRole")["rules"][-1]["resources"] == ["quotas"]
    assert one(objects, "PodDisruptionBudget")["spec"]["minAvailable"] == "50%"
    config = load(one(objects, "ConfigMap")["data"]["config.yaml"].encode())
    assert config.parallelism == 4
    assert config.profiles[0].scheduler_name == "mine"
    assert config.leader_election.lease_duration.total_seconds() == 30
    assert config.leader_election.resource_name == "kuberth"


def test_one_replica_has_no_budget_that_blocks_drains(helm: Helm) -> None:
    assert not [tree for tree in rendered(helm, "--set=replicas=1") if tree["kind"] == "PodDisruptionBudget"]


def test_a_replacement_without_control_plane_nodes(helm: Helm) -> None:
    objects = rendered(helm, "--set=mode=replace,controlPlane=false", namespace="kube-system")
    spec = one(objects, "Deployment")["spec"]["template"]["spec"]
    assert "nodeSelector" not in spec
    assert "tolerations" not in spec


def test_a_packaged_chart_is_complete(helm: Helm, tmp_path: Path) -> None:
    helm("package", str(FOLDER), f"--destination={tmp_path}")
    packed = tmp_path / f"kuberth-{kuberth.__version__}.tgz"
    printed = helm("template", "kuberth", str(packed), "--namespace=kuberth-system").stdout
    assert [tree for tree in yaml.safe_load_all(printed) if tree] == rendered(helm)


# On an API server


@pytest.fixture
def installed(helm: Helm, control_plane: ControlPlane) -> Iterator[Helm]:
    helm("install", RELEASE, str(FOLDER), f"--namespace={NAMESPACE}", "--create-namespace")
    yield helm
    helm("uninstall", RELEASE, f"--namespace={NAMESPACE}", "--ignore-not-found")


def deployment(control_plane: ControlPlane) -> Object:
    printed = control_plane.kubectl("get", f"--namespace={NAMESPACE}", "deployment", RELEASE, "-o", "json")
    found: Object = json.loads(printed)
    return found


def live_configuration(control_plane: ControlPlane) -> Object:
    printed = control_plane.kubectl(
        "get", f"--namespace={NAMESPACE}", "configmap", f"{RELEASE}-config", "-o", "json"
    )
    config: Object = yaml.safe_load(json.loads(printed)["data"]["config.yaml"])
    return config


def test_upgrade_rollback_and_uninstall(installed: Helm, control_plane: ControlPlane) -> None:
    where = f"--namespace={NAMESPACE}"
    first, config = deployment(control_plane), live_configuration(control_plane)
    installed("upgrade", RELEASE, str(FOLDER), where)
    assert deployment(control_plane)["metadata"]["generation"] == first["metadata"]["generation"]
    installed("upgrade", RELEASE, str(FOLDER), where, "--set=replicas=3,configuration.parallelism=4")
    changed = deployment(control_plane)
    assert changed["spec"]["replicas"] == 3
    assert live_configuration(control_plane)["parallelism"] == 4
    assert changed["spec"]["template"] != first["spec"]["template"], "a new configuration restarts the pods"
    installed("rollback", RELEASE, "1", where)
    assert deployment(control_plane)["spec"] == first["spec"]
    assert live_configuration(control_plane) == config
    installed("uninstall", RELEASE, where)
    kinds = "deployment,configmap,serviceaccount,clusterrole,clusterrolebinding,rolebinding,flowschema,pdb"
    left = control_plane.kubectl(
        "get", kinds, "--all-namespaces", f"--selector=app.kubernetes.io/instance={RELEASE}", "-o", "name"
    )
    assert left == ""


def test_all_options_are_accepted(helm: Helm, control_plane: ControlPlane) -> None:
    control_plane.kubectl("apply", "-f", "-", input_text=json.dumps(SERVICE_MONITORS))
    control_plane.kubectl(
        "wait", "--for=condition=Established", "crd/servicemonitors.monitoring.coreos.com", "--timeout=30s"
    )
    try:
        objects = rendered(
            helm,
            "--set=serviceMonitor.enabled=true,networkPolicy.enabled=true,mode=replace",
            "--set=serviceMonitor.reader.name=prometheus,serviceMonitor.reader.namespace=monitoring",
            '--set-json=networkPolicy.from=[{"namespaceSelector":{}}]',
            name=RELEASE,
            namespace="kube-system",
        )
        kinds = [tree["kind"] for tree in objects]
        assert {"ServiceMonitor", "Service", "NetworkPolicy"} <= set(kinds)
        control_plane.kubectl(
            "apply",
            "--dry-run=server",
            "--validate=strict",
            "-f",
            "-",
            input_text=yaml.safe_dump_all(objects),
        )
        monitor, service = one(objects, "ServiceMonitor"), one(objects, "Service")
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        labels = one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()
        assert one(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
        reader = one(objects, "ClusterRoleBinding", "metrics-reader")["subjects"][0]
        assert (reader["name"], reader["namespace"]) == ("prometheus", "monitoring")
    finally:
        control_plane.kubectl("delete", "crd", "servicemonitors.monitoring.coreos.com")


@pytest.mark.usefixtures("kuberth_only")
def test_the_way_of_the_page_from_the_chart_to_a_pod_with_a_node(
    helm: Helm,
    cluster: Cluster,
    start_scheduler: StartScheduler,
    record_property: Callable[[str, object], None],
) -> None:
    """No kubelet runs the scheduler's pods: it runs here, with the rights and configuration of the chart."""
    install, run, wait = commands("deploying.md", "With Helm")[0]
    began = time.monotonic()
    words = shlex.split(install)
    assert words[:4] == ["helm", "install", "kuberth", "deploy/chart/kuberth"]
    words = [
        RELEASE if word == "kuberth" else NAMESPACE if word == "kuberth-system" else word for word in words
    ]
    helm(*words[1:3], str(FOLDER), *words[4:])
    try:
        scheduler = start_scheduler(live_configuration(cluster.control_plane), user=CHART)
        cluster.create(node("a"))
        kubectl = cluster.control_plane.kubectl
        kubectl(*shlex.split(run)[1:])
        assert "condition met" in kubectl(*shlex.split(wait)[1:])
        record_property("walked", f"3 commands, {time.monotonic() - began:.1f} s")
        assert kubectl("get", "pod", "hello", "-o", "jsonpath={.spec.nodeName}") == "a"

        def holder() -> str:
            found = cluster.api.get("coordination.k8s.io/v1", "Lease", RELEASE, namespace=NAMESPACE)
            return str(found["spec"].get("holderIdentity", ""))

        wait_for("the lease of the release", holder)
        scheduler.leave()
    finally:
        cluster.control_plane.kubectl("delete", "pod", "hello", "--ignore-not-found", "--force")
        helm("uninstall", RELEASE, f"--namespace={NAMESPACE}", "--ignore-not-found")
