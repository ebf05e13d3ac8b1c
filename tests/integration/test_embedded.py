"""The embedded cluster as a whole, in this process; real sockets and a real SQLite file."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kuberth.api.core import Namespace
from kuberth.assembly.scheduler import Scheduler
from kuberth.cli import cli
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.errors import ConfigError, KuberthError
from kuberth.local.manifests import Manifest, read_manifests
from kuberth.programs.up.cluster import ClusterSettings, EmbeddedCluster, running_cluster
from kuberth.scheduling.loop import SchedulingLoop
from kuberth.text.documents import write_yaml


def pods(count: int, **spec: Any) -> Iterator[Manifest]:
    for number in range(count):
        requests = {"cpu": "100m", "memory": "64Mi"}
        container = {"name": "main", "image": "none", "resources": {"requests": requests}}
        yield Manifest(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p{number}", "namespace": "default"},
                "spec": {"containers": [container], **spec},
            }
        )


async def placements(cluster: EmbeddedCluster) -> Counter[str]:
    """Pods per node, once every pod has one."""
    while True:
        found = (await cluster.core.list("pods", namespace="default"))["items"]
        per_node = Counter(pod["spec"].get("nodeName", "") for pod in found)
        if found and not per_node[""]:
            return +per_node
        await asyncio.sleep(0.02)


def test_scheduling_over_https_equals_scheduling_in_process(tmp_path: Path) -> None:
    async def in_process() -> Counter[str]:
        settings = ClusterSettings(nodes=20, port=0, manifests=tuple(pods(60)))
        async with asyncio.timeout(60), running_cluster(settings) as cluster:
            return await placements(cluster)

    async def over_https() -> Counter[str]:
        settings = ClusterSettings(
            nodes=20, port=0, data=tmp_path, with_scheduler=False, manifests=tuple(pods(60))
        )
        async with asyncio.timeout(60), running_cluster(settings) as cluster:
            api = HttpApi(load_client_config(kubeconfig=str(cluster.kubeconfig_path)), qps=-1)
            scheduler = Scheduler(api)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(scheduler.run(), name="scheduler")
                    found = await placements(cluster)
                    scheduler.stop()
            finally:
                await api.close()
            return found

    here, there = asyncio.run(in_process()), asyncio.run(over_https())
    assert sorted(here.values()) == sorted(there.values()) == [3] * 20


def test_the_summary_counts_waiting_pods_by_reason() -> None:
    async def main() -> None:
        gated = pods(1, schedulingGates=[{"name": "example.com/wait"}])
        settings = ClusterSettings(nodes=1, port=0, manifests=tuple(gated))
        async with asyncio.timeout(60), running_cluster(settings) as cluster:
            summary = await cluster.summary()
            assert (summary.nodes, summary.pods) == (1, {"gated": 1})

    asyncio.run(main())


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    async def main() -> None:
        settings = ClusterSettings(nodes=0, port=0, data=tmp_path / "data", with_scheduler=False)
        async with asyncio.timeout(60), running_cluster(settings):
            pass

    asyncio.run(main())
    modes = {
        path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "data").rglob("*") if path.is_file()
    }
    assert modes["cluster.sqlite"] == modes["kubeconfig"] == 0o600
    assert {name: mode for name, mode in modes.items() if mode & 0o077 and not name.endswith(".crt")} == {}


def test_nodes_are_kept_unless_fewer_are_asked_for(tmp_path: Path) -> None:
    async def main(nodes: int | None, *, remove: bool = False) -> int:
        settings = ClusterSettings(
            nodes=nodes, remove_nodes=remove, port=0, data=tmp_path, with_scheduler=False
        )
        async with asyncio.timeout(60), running_cluster(settings) as cluster:
            return (await cluster.summary()).nodes

    asked = [(4, False), (None, False), (2, False), (2, True), (None, False), (3, False)]
    assert [asyncio.run(main(nodes, remove=remove)) for nodes, remove in asked] == [4, 4, 4, 2, 2, 3]


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_in_memory_nothing_is_on_disk_but_the_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def main() -> None:
        settings = ClusterSettings(nodes=0, port=0, with_scheduler=False)
        async with asyncio.timeout(60), running_cluster(settings) as cluster:
            assert files_in(tmp_path) == [cluster.kubeconfig_path]
            assert cluster.kubeconfig_path.stat().st_mode & 0o777 == 0o600
            api = HttpApi(load_client_config(kubeconfig=str(cluster.kubeconfig_path)))
            try:
                assert (await api.get(Namespace, "default")).metadata.name == "default"
            finally:
                await api.close()

    asyncio.run(main())
    assert files_in(tmp_path) == []


def test_metrics_need_the_credentials_of_the_kubeconfig(tmp_path: Path) -> None:
    async def main() -> None:
        settings = ClusterSettings(nodes=1, port=0, data=tmp_path, manifests=tuple(pods(1)))
        async with asyncio.timeout(60), running_cluster(settings) as cluster:
            await placements(cluster)
            token = (tmp_path / "pki" / "token").read_text(encoding="ascii")
            context = ssl.create_default_context(cafile=str(tmp_path / "pki" / "ca.crt"))

            def scrape(path: str, **headers: str) -> str:
                request = urllib.request.Request(cluster.url + path, headers=headers)
                with urllib.request.urlopen(request, context=context, timeout=30) as answer:
                    return str(answer.read().decode())

            bearer = {"authorization": f"Bearer {token}"}
            text = await asyncio.to_thread(scrape, "/metrics", **bearer)
            assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}' in text
            assert "kubernetes_feature_enabled" in text
            assert 'pod="p0"' in await asyncio.to_thread(scrape, "/metrics/resources", **bearer)
            with pytest.raises(urllib.error.HTTPError, match="403") as refused:
                await asyncio.to_thread(scrape, "/metrics")
            refused.value.close()

    asyncio.run(main())


async def waiting(cluster: EmbeddedCluster, key: str) -> None:
    """Return once the pod is in a scheduling queue."""
    assert cluster.scheduler is not None
    while True:
        if cluster.scheduler.queue.get(key) is not None:
            return
        await asyncio.sleep(0.02)


def explained(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["explain", *arguments])


def test_explain_asks_the_running_scheduler_unless_forbidden(tmp_path: Path) -> None:
    async def main() -> None:
        (gated,) = pods(1, schedulingGates=[{"name": "g"}])
        settings = ClusterSettings(nodes=1, port=0, data=tmp_path, manifests=(gated,))
        async with asyncio.timeout(60), running_cluster(settings) as cluster:
            await waiting(cluster, "default/p0")
            door = ("--kubeconfig", str(cluster.kubeconfig_path), "-o", "json")

            async def explained_json(*arguments: str) -> Any:
                result = await asyncio.to_thread(explained, *arguments, *door)
                assert result.exit_code == 0, result.exception
                return json.loads(result.stdout)

            asked = await explained_json("pod", "p0")
            assert (asked["verdict"], asked["waiting"]["queue"]) == ("gated", "gated")
            assert asked["proposals"][0]["changes"] == [{"kind": "RemoveGate", "gate": "g"}]
            dry = await explained_json("pod", "p0", "--dry-run")
            assert "waiting" not in dry
            assert dry["proposals"] == asked["proposals"]
            for more in ((), ("--dry-run",), ("--server", cluster.url)):
                lost = await asyncio.to_thread(explained, "pod", "po", *door, *more)
                message = "there is no pod po in namespace default; did you mean p0?"
                assert str(lost.exception) == message

    asyncio.run(main())


def test_a_scheduling_loop_that_ends_unasked_ends_the_cluster() -> None:
    async def main() -> None:
        async with asyncio.timeout(60), running_cluster(ClusterSettings(nodes=0, port=0)) as cluster:
            assert cluster.scheduler is not None
            cluster.scheduler.loop.stop()
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as failed:
        asyncio.run(main())
    assert failed.group_contains(KuberthError, match="the scheduling loop ended unexpectedly")


def test_a_scheduler_that_fails_ends_the_cluster(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(self: SchedulingLoop) -> None:
        raise RuntimeError("boom")

    async def main() -> None:
        async with asyncio.timeout(60), running_cluster(ClusterSettings(nodes=0, port=0)):
            await asyncio.Event().wait()

    monkeypatch.setattr(SchedulingLoop, "run_ticks", fail)
    with pytest.raises(ExceptionGroup) as failed:
        asyncio.run(main())
    assert failed.group_contains(KuberthError, match="so the cluster stops")
    assert not failed.group_contains(RuntimeError)
    assert "boom" in caplog.text


def test_a_plugin_that_blocks_is_named_and_a_signal_ends_it_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "blocking.py").write_text(BLOCKING, encoding="utf-8")
    (tmp_path / "config.yaml").write_text(BLOCKING_CONFIG, encoding="utf-8")
    (tmp_path / "pod.yaml").write_text(write_yaml(next(pods(1)).tree), encoding="utf-8")
    options = [
        "--memory",
        "--port",
        "0",
        "--plugin",
        "blocking:Blocking",
        "--config",
        "config.yaml",
        "-f",
        "pod.yaml",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "kuberth", "up", *options],
        cwd=tmp_path,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            while "blocked" not in process.stdout.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 1
    assert "plugin Blocking is running at Filter and has not returned; ending without it" in errors


BLOCKING = """
import time
from kuberth.framework import FilterPlugin

class Blocking(FilterPlugin):
    name = "Blocking"

    def filter(self, state, pod, node):
        print("blocked", flush=True)
        time.sleep(600)
"""
BLOCKING_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Blocking}]}}}]
"""


def test_an_unknown_controller_is_refused() -> None:
    async def main() -> None:
        async with running_cluster(ClusterSettings(port=0, without=frozenset({"nonsense"}))):
            pass

    with pytest.raises(ConfigError, match="there is no controller nonsense"):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "cannot be read as YAML"),
        ("- 1", "expected Kubernetes objects"),
        ("{}", "expected Kubernetes"),
    ],
)
def test_manifests_that_make_no_sense(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=problem):
        list(read_manifests(file))


def test_manifests_of_a_folder_and_of_lists(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("kind: B\n---\n---\nkind: List\nitems: [{kind: C}]\n", encoding="utf-8")
    (tmp_path / "a.json").write_text('{"kind": "A"}', encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no manifest", encoding="utf-8")
    assert [manifest.tree["kind"] for manifest in read_manifests(tmp_path)] == ["A", "B", "C"]
