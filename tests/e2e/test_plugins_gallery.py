"""The plugins of `kuberth_plugins` on a real API server, with their definitions and rights."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import msgspec
import pytest
import yaml

import kuberth_plugins
from tests.e2e.api_client import RefusedError
from tests.e2e.assets import find
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import SECOND_SCHEDULER
from tests.e2e.objects import configuration, node, pod
from tests.e2e.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("kuberth_only")]

MANIFESTS = Path(kuberth_plugins.__file__).parent / "manifests"
API = "scheduling.x-k8s.io/v1alpha1"
PREPARATIONS = "plugins.kuberth.io/v1alpha1"
NAMESPACES = ("quota1", "quota2")
UNLIMITED = "unlimited"


@pytest.fixture
def define(cluster: Cluster) -> Iterator[Any]:
    """Applies a manifest of the package and lets the scheduler read the kind, as the page says."""
    applied: list[str] = []

    def apply(plural: str, kind: str, api_version: str = API) -> None:
        applied.append(plural)
        kubectl = cluster.control_plane.kubectl
        kubectl("apply", "-f", str(MANIFESTS / f"{plural}.yaml"))
        kubectl(
            "create",
            "clusterrolebinding",
            f"kuberth-{plural}",
            f"--clusterrole=kuberth-{plural}",
            f"--user={SECOND_SCHEDULER}",
        )

        def served() -> bool:
            try:
                cluster.api.list(api_version, kind)
            except RefusedError:
                return False
            return True

        wait_for(f"{plural} to be served", served)

    yield apply
    for plural in applied:
        kubectl = cluster.control_plane.kubectl
        kubectl("delete", "--ignore-not-found", "-f", str(MANIFESTS / f"{plural}.yaml"))
        kubectl("delete", "--ignore-not-found", "clusterrolebinding", f"kuberth-{plural}")


class Loads:
    """What a node exporter of each node would say, and a real Prometheus that reads it every second."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.loads: dict[str, float] = {}
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                for name, load in exporter.loads.items():
                    self.wfile.write(f'load{{instance="{name}:9100"}} {load}\n'.encode())

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — its signature
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        scrape = {
            "job_name": "nodes",
            "honor_labels": True,
            "static_configs": [{"targets": [f"127.0.0.1:{self._server.server_port}"]}],
        }
        config = folder / "prometheus.yml"
        config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}))
        with socket.create_server(("127.0.0.1", 0)) as free:
            listen = f"127.0.0.1:{free.getsockname()[1]}"
        self.address = f"http://{listen}"
        with (folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    str(program),
                    f"--config.file={config}",
                    f"--storage.tsdb.path={folder / 'prometheus'}",
                    f"--web.listen-address={listen}",
                ],
                stdout=log,
                stderr=log,
            )

    def set(self, **loads: float) -> None:
        """Change the figures, and wait until Prometheus has them."""
        self.loads = loads

        def is_read() -> bool:
            try:
                with urlopen(f"{self.address}/api/v1/query?query={quote('load')}", timeout=5) as answer:
                    found = msgspec.json.decode(answer.read())["data"]["result"]
            except OSError:
                return False  # it is starting
            seen = {each["metric"]["instance"].partition(":")[0]: float(each["value"][1]) for each in found}
            return seen == loads

        wait_for("Prometheus to read the loads", is_read, seconds=60)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)

    def close(self) -> None:
        self.stop()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Loads]:
    program = find("prometheus")
    if program is None:
        pytest.skip("no prometheus: run `make envtest` where Debian's packages are")
    loads = Loads(program, tmp_path)
    yield loads
    loads.close()


def test_pods_go_where_prometheus_measured_the_least_load(
    cluster: Cluster, start_scheduler: StartScheduler, prometheus: Loads
) -> None:
    """The loads change, then Prometheus is gone: pods are scheduled all the same."""
    cluster.create(*(node(f"n{index}", cpu="32") for index in range(3)))
    prometheus.set(n0=0.9, n1=0.1, n2=0.8)
    args = {"address": prometheus.address, "query": "load", "refreshSeconds": 1, "staleAfterSeconds": 5}
    own = {
        "schedulerName": "kuberth",
        "plugins": {"multiPoint": {"enabled": [{"name": "LoadAware", "weight": 100}]}},
        "pluginConfig": [{"name": "LoadAware", "args": args}],
    }
    start_scheduler(configuration(own))
    number = iter(range(1000))

    def lands_on() -> str:
        name = f"p{next(number)}"
        cluster.create(pod(name, scheduler="kuberth", cpu="10m"))
        return cluster.wait_bound(name)[name]

    wait_for("pods to go to n1", lambda: lands_on() == "n1", seconds=60, every=0.5)
    prometheus.set(n0=0.9, n1=0.7, n2=0.05)
    wait_for("pods to go to n2", lambda: lands_on() == "n2", seconds=60, every=0.5)
    prometheus.stop()
    wait_for("old figures to lose their effect", lambda: lands_on() != "n2", seconds=60, every=0.5)


def custom(kind: str, name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def test_gangs_are_bound_whole(cluster: Cluster, start_scheduler: StartScheduler, define: Any) -> None:
    """Three gangs of four on nodes for nine pods: two run, and the third when one has gone."""
    define("podgroups", "PodGroup")
    cluster.create(*(node(f"n{index}", cpu="3") for index in range(3)))
    sort = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    enabled = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}, "queueSort": sort}
    start_scheduler(configuration({"schedulerName": "kuberth", "plugins": enabled}))
    for name in ("a", "b", "c"):
        cluster.api.create(custom("PodGroup", name, cluster.namespace, minMember=4))
    labels = "scheduling.x-k8s.io/pod-group"
    cluster.create(
        *(
            pod(f"{name}-{index}", scheduler="kuberth", cpu="1", labels={labels: name})
            for index in range(4)
            for name in ("a", "b", "c")
        )
    )

    def running() -> dict[str, int]:
        names = [name.partition("-")[0] for name in cluster.placements()]
        return {name: names.count(name) for name in set(names)}

    wait_for("two gangs to run", lambda: sorted(running().values()) == [4, 4], seconds=60)
    (gone, _stays) = sorted(running())
    (last,) = {"a", "b", "c"} - set(running())
    for index in range(4):
        cluster.delete_pod(f"{gone}-{index}")
    wait_for("the third gang to run", lambda: running().get(last) == 4, seconds=60)


def test_a_namespace_gets_its_guaranteed_share_back(
    cluster: Cluster, start_scheduler: StartScheduler, define: Any
) -> None:
    """scheduler-plugins' example: 8 CPUs, two quotas of min 4 and max 6."""
    define("elasticquotas", "ElasticQuota")
    kubectl = cluster.control_plane.kubectl
    cluster.create(node("n0", cpu="8"))
    enabled = {
        "multiPoint": {"enabled": [{"name": "CapacityScheduling"}]},
        "postFilter": {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]},
    }
    start_scheduler(configuration({"schedulerName": "kuberth", "plugins": enabled}))

    def put(namespace: str, name: str) -> None:
        made = pod(name, scheduler="kuberth", cpu="2")
        made["metadata"]["namespace"] = namespace
        cluster.api.create(made)

    def placed(namespace: str) -> int:
        pods = cluster.api.list("v1", "Pod", namespace=namespace)
        return sum(bool(each["spec"].get("nodeName")) for each in pods)

    try:
        for namespace in NAMESPACES:
            kubectl("create", "namespace", namespace)
            quota = custom("ElasticQuota", namespace, namespace, min={"cpu": 4}, max={"cpu": 6})
            cluster.api.create(quota)
        for index in range(4):
            put("quota1", f"a{index}")
        wait_for("quota1 to reach its max", lambda: placed("quota1") == 3)
        for index in range(2):
            put("quota2", f"b{index}")
        wait_for("quota2 to reach its min", lambda: placed("quota2") == 2)
        wait_for("one pod of quota1 to be gone", lambda: placed("quota1") == 2)
    finally:
        for namespace in NAMESPACES:
            kubectl("delete", "pods", "--all", "--force", "-n", namespace)
            kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")


def test_a_queue_by_age_a_limit_for_a_namespace_and_a_prepared_node(
    cluster: Cluster, start_scheduler: StartScheduler, define: Any
) -> None:
    """StrictFifoQueue, NamespacePodQuota and TwoStepBinding in one scheduler."""
    define("nodepreparations", "NodePreparation", PREPARATIONS)
    kubectl = cluster.control_plane.kubectl
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    cluster.create({**urgent, "value": 1000, "preemptionPolicy": "Never"})
    own = {
        "schedulerName": "kuberth",
        "plugins": {"multiPoint": {"enabled": [{"name": "TwoStepBinding"}, {"name": "NamespacePodQuota"}]}},
        "pluginConfig": [{"name": "NamespacePodQuota", "args": {"pods": {cluster.namespace: 2}}}],
    }
    start_scheduler(configuration(own), flags=["--queue=kuberth_plugins.strict_fifo:StrictFifoQueue"])

    # The older pod gets the only place, though the other one is more important.
    for name, priority in (("old", {}), ("young", {"priorityClassName": "urgent"})):
        cluster.create(pod(name, scheduler="kuberth", cpu="800m", **priority))
        cluster.wait_unschedulable(name)
    cluster.create(node("n0", cpu="1"))
    assert cluster.wait_bound("old") == {"old": "n0"}
    cluster.create(node("n1", cpu="1"))
    assert cluster.wait_bound("young")["young"] == "n1"

    # The namespace has its two pods; the third one is not even tried, while a pod of another is prepared for.
    cluster.create(pod("third", scheduler="kuberth", cpu="800m"))
    prepared = pod("prepared", scheduler="kuberth")
    prepared["metadata"]["namespace"] = UNLIMITED
    prepared["metadata"]["annotations"] = {"plugins.kuberth.io/prepare": "disk"}
    kubectl("create", "namespace", UNLIMITED)
    try:
        cluster.api.create(prepared)

        def preparation() -> Any:
            return cluster.api.list(PREPARATIONS, "NodePreparation", namespace=UNLIMITED) or None

        [asked] = wait_for("a preparation", preparation)
        assert asked["spec"]["prepare"] == "disk"
        assert not cluster.api.get("v1", "Pod", "prepared", namespace=UNLIMITED)["spec"].get("nodeName")
        done = {"status": {"phase": "Ready"}}
        cluster.api.patch(
            PREPARATIONS, "NodePreparation", "prepared", done, namespace=UNLIMITED, subresource="status"
        )
        placed = wait_for(
            "the prepared pod to be bound",
            lambda: cluster.api.get("v1", "Pod", "prepared", namespace=UNLIMITED)["spec"].get("nodeName"),
        )
        assert placed == asked["spec"]["nodeName"]
        assert "third" not in cluster.placements()
        assert cluster.events("FailedScheduling", name="third") == []
        cluster.delete_pod("old")
        assert cluster.wait_bound("third")["third"] == "n0"
    finally:
        kubectl("delete", "pod", "prepared", "-n", UNLIMITED, "--ignore-not-found", "--force")
        kubectl("delete", "namespace", UNLIMITED, "--ignore-not-found", "--wait=false")
