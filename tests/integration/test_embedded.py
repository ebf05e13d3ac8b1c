"""The embedded cluster as a whole, in this process; real sockets and a real SQLite file."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kuberth.assembly.scheduler import Scheduler
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.errors import ConfigError
from kuberth.local.manifests import Manifest, read_manifests
from kuberth.programs.up.cluster import ClusterSettings, EmbeddedCluster, running_cluster


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


def test_the_summary_tells_who_waits_and_why() -> None:
    async def main() -> None:
        gated = pods(1, schedulingGates=[{"name": "example.com/wait"}])
        settings = ClusterSettings(nodes=1, port=0, manifests=tuple(gated))
        async with asyncio.timeout(60), running_cluster(settings) as cluster:
            summary = await cluster.summary()
            assert (summary.nodes, summary.pods) == (1, {"SchedulingGated": 1})

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


def test_an_unknown_controller_is_told() -> None:
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
