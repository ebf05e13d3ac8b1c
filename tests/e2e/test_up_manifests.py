"""What people apply to `kuberth up`, applies: the usual manifests, by real kubectl, until their pods run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.assets import REPOSITORY, Assets
from tests.e2e.processes import Process
from tests.e2e.waiting import wait_for

pytestmark = pytest.mark.e2e

MANIFESTS = Path(__file__).parent / "manifests"
PATIENCE_SECONDS = 60.0


class Cluster:
    """A `kuberth up` of three nodes, and kubectl for it."""

    def __init__(self, assets: Assets, folder: Path) -> None:
        self._kubectl = str(assets.kubectl)
        self._kubeconfig = folder / "kubeconfig"
        self._cache = folder / "cache"
        command = [sys.executable, "-m", "kuberth", "up", "--memory", "--nodes", "3", "--port", "0"]
        command += ["--kubeconfig-out", str(self._kubeconfig)]
        self.process = Process("kuberth up", command, log=folder / "up.log")
        wait_for(
            "the cluster",
            lambda: "Ready." in self.process.output(),
            seconds=PATIENCE_SECONDS,
            explain=self.process.tail,
        )

    def __call__(self, *args: str, stdin: str = "", refused: bool = False) -> str:
        """What kubectl printed, or how it was refused."""
        done = subprocess.run(
            [self._kubectl, f"--kubeconfig={self._kubeconfig}", f"--cache-dir={self._cache}", *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_SECONDS,
            check=False,
        )
        assert (done.returncode != 0) is refused, (
            f"kubectl {' '.join(args)}: {done.stdout}{done.stderr}\n{self.process.tail()}"
        )
        # Warnings would name fields that are dropped.
        assert refused or "unknown field" not in done.stderr, done.stderr
        return done.stderr if refused else done.stdout

    def apply(self, name: str) -> None:
        path = MANIFESTS / name
        reported = self("apply", "-f", str(path)).splitlines()
        count = sum(tree is not None for tree in yaml.safe_load_all(path.read_text(encoding="utf-8")))
        assert len(reported) == count, reported
        assert all(line.endswith("created") for line in reported), reported
        # What the server made of it and what was asked for do not drift apart. Only of claim templates (a
        # list that is replaced as a whole) and stringData kubectl cannot know that they have not changed.
        again = self("apply", "-f", str(path)).splitlines()
        changed = [line for line in again if not line.endswith("unchanged")]
        assert all(line.startswith(("statefulset.apps/", "secret/")) for line in changed), changed

    def get(self, *what: str) -> Any:
        return json.loads(self("get", *what, "-o", "json"))

    def items(self, *what: str) -> list[Any]:
        found: list[Any] = self.get(*what)["items"]
        return found

    def wait(self, what: str, probe: Any) -> None:
        wait_for(what, probe, seconds=PATIENCE_SECONDS, every=0.2, explain=lambda: self("get", "all", "-A"))

    def wait_running(self, count: int, *args: str) -> None:
        def all_run() -> bool:
            phases = [pod["status"].get("phase") for pod in self.items("pods", *args)]
            return phases == ["Running"] * count

        self.wait(f"{count} pods of {args} to run", all_run)


@pytest.fixture(scope="module")
def up(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(assets, tmp_path_factory.mktemp("up"))
    try:
        yield cluster
    finally:
        cluster.process.kill()


def test_what_every_cluster_has(up: Cluster) -> None:
    assert up.get("serviceaccount", "default", "-n", "kube-public")["metadata"]["name"] == "default"
    up.wait(
        "the CA", lambda: len(up.items("cm", "-A", "--field-selector=metadata.name=kube-root-ca.crt")) == 4
    )
    assert "10.96.0.1" in up("get", "service", "kubernetes")
    up.wait("the server's endpoints", lambda: "127.0.0.1" in up("get", "endpointslice", "kubernetes"))


def test_our_own_deployment(up: Cluster) -> None:
    up("apply", "-k", str(REPOSITORY / "deploy" / "second-scheduler"))
    up.wait_running(2, "-n", "kuberth-system")
    shown = up("get", "clusterrolebinding,flowschema,pdb", "-A", "-o", "wide")
    assert "kuberth-system/kuberth" in shown


def test_guestbook_with_networking(up: Cluster) -> None:
    up.apply("guestbook.yaml")
    up.wait_running(3, "-l", "app=guestbook")
    up.wait_running(1, "-l", "app=redis")

    def all_behind() -> bool:
        found = up.items("endpointslices", "-l", "kubernetes.io/service-name=frontend")
        return [len(each.get("endpoints") or ()) for each in found] == [3]

    up.wait("three endpoints", all_behind)
    up.apply("networking.yaml")
    assert up("get", "hpa", "frontend", "--no-headers").split()[:5] == [
        "frontend",
        "Deployment/frontend",
        "cpu:",
        "<unknown>/50%",
        "1",
    ]
    assert up("get", "ingress", "--no-headers").split()[:4] == ["minimal-ingress", "nginx-example", "*", "80"]
    assert up("get", "networkpolicy", "--no-headers").split()[:2] == ["test-network-policy", "role=db"]


def test_stateful_set_with_claims(up: Cluster) -> None:
    up.apply("statefulset.yaml")
    assert up.get("statefulset", "web")["metadata"]["generation"] == 1
    up("rollout", "status", "statefulset/web", "--timeout=60s")
    up.wait_running(2, "-l", "app=nginx")
    phases = {each["metadata"]["name"]: each["status"]["phase"] for each in up.items("pvc")}
    assert phases == {"www-web-0": "Bound", "www-web-1": "Bound"}


def test_daemon_set(up: Cluster) -> None:
    up.apply("daemonset.yaml")
    up("rollout", "status", "daemonset/fluentd-elasticsearch", "-n", "kube-system", "--timeout=60s")
    pods = up.items("pods", "-n", "kube-system", "-l", "name=fluentd-elasticsearch")
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 3
    row = up("get", "ds", "-n", "kube-system", "--no-headers").split()
    assert row[:7] == ["fluentd-elasticsearch", "3", "3", "3", "3", "3", "<none>"]
    up("set", "image", "ds/fluentd-elasticsearch", "fluentd-elasticsearch=fluentd:6", "-n", "kube-system")
    up("rollout", "status", "daemonset/fluentd-elasticsearch", "-n", "kube-system", "--timeout=120s")
    up("rollout", "undo", "daemonset/fluentd-elasticsearch", "-n", "kube-system")
    up("rollout", "status", "daemonset/fluentd-elasticsearch", "-n", "kube-system", "--timeout=120s")
    template = up.get("ds", "fluentd-elasticsearch", "-n", "kube-system")["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "quay.io/fluentd_elasticsearch/fluentd:v5.0.1"


def test_cron_job(up: Cluster) -> None:
    up.apply("cronjob.yaml")
    up("create", "job", "now", "--from=cronjob/hello")
    up("wait", "--for=condition=complete", "job/now", "--timeout=60s")
    # The next full minute is at most one away.
    wait_for(
        "a job by the clock",
        lambda: any(job["metadata"]["name"].startswith("hello-") for job in up.items("jobs")),
        seconds=120,
        every=1.0,
    )
    assert up("get", "cronjob", "hello", "--no-headers").split()[:8] == ["hello", *"*****", "<none>", "False"]
    up("delete", "cronjob", "hello")


def test_access(up: Cluster) -> None:
    up.apply("access.yaml")
    row = up("get", "rolebinding", "read-pods", "-o", "wide", "--no-headers").split()
    assert (row[1], row[3:]) == ("Role/pod-reader", ["jane", "default/robot"])
    assert "pods" in up("describe", "role", "pod-reader")


def test_quota_and_limits(up: Cluster) -> None:
    up.apply("quota.yaml")
    up("create", "deployment", "web", "--image=nginx", "--replicas=3", "-n", "tenant")
    up.wait_running(2, "-n", "tenant")
    pod = up.items("pods", "-n", "tenant")[0]
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "250m", "memory": "128Mi"}

    def reported() -> bool:
        found = up.items("replicasets", "-n", "tenant")[0]["status"].get("conditions", [])
        return any("exceeded quota: compute, requested: pods=1" in each["message"] for each in found)

    up.wait("the refusal to be reported", reported)
    assert "pods: 2/2, requests.cpu: 500m/1" in up("get", "quota", "-n", "tenant")
    error = up("run", "big", "--image=nginx", "-n", "tenant", "--overrides", json.dumps(big()), refused=True)
    assert "maximum cpu usage per Container is 1, but limit is 2" in error


def big() -> dict[str, Any]:
    container = {"name": "big", "image": "nginx", "resources": {"limits": {"cpu": "2", "memory": "1Mi"}}}
    return {"spec": {"containers": [container]}}


def test_an_ordinary_chart(up: Cluster) -> None:
    up.apply("chart.yaml")
    up("rollout", "status", "deployment/release-shop", "--timeout=60s")
    up(
        "wait",
        "--for=jsonpath={.status.phase}=Succeeded",
        "pod/release-shop-test-connection",
        "--timeout=60s",
    )
    secret = up.get("secret", "release-shop")
    assert set(secret["data"]) == {"password"}
    assert "stringData" not in secret
    up("delete", "-f", str(MANIFESTS / "chart.yaml"))


def test_a_custom_kind_with_a_schema(up: Cluster) -> None:
    up.apply("crontab-crd.yaml")
    up("wait", "--for=condition=Established", "crd/crontabs.stable.example.com", "--timeout=30s")
    good = {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": "good", "finalizers": ["hold-me"]},
        "spec": {"cronSpec": "* * * * */5"},
    }
    up("apply", "-f", "-", stdin=json.dumps(good))
    assert up("get", "ct", "--no-headers").split()[:7] == ["good", *"****", "*/5", "1"]
    assert up.get("ct", "good")["spec"]["image"] == "busybox"
    bad = {**good, "metadata": {"name": "bad"}, "spec": {"cronSpec": "often", "replicas": 20}}
    error = up("apply", "-f", "-", stdin=json.dumps(bad), refused=True)
    assert 'The CronTab "bad" is invalid' in error
    assert "spec.replicas in body should be less than or equal to 10" in error
    unknown = {**good, "spec": {**good["spec"], "colour": "red"}}  # type: ignore[dict-item]  # a field too many
    error = up("apply", "-f", "-", stdin=json.dumps(unknown), refused=True)
    assert 'strict decoding error: unknown field "spec.colour"' in error
    assert "When it runs." in up("explain", "crontab.spec.cronSpec")
    up("scale", "--replicas=5", "crontab/good")
    assert up.get("ct", "good")["spec"]["replicas"] == 5
    # A finalizer of any name is waited for.
    up("delete", "crd", "crontabs.stable.example.com", "--wait=false")
    assert up.get("ct", "good")["metadata"]["deletionTimestamp"]
    up("patch", "ct", "good", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    up("wait", "--for=delete", "crd/crontabs.stable.example.com", "--timeout=30s")
