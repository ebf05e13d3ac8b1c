"""`kuberth up` while its rules change: a ConfigMap is edited, the module of a plugin is saved."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kuberth.cli.context import Extras, build_registry, configuration
from kuberth.cli.rule_reader import RuleReader
from kuberth.config import load
from kuberth.framework import FilterPlugin
from kuberth.local.manifests import Manifest
from kuberth.programs.up.cluster import ClusterSettings, EmbeddedCluster, apply, running_cluster

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: OnlyOne}]
"""
MODULE = """
from kuberth.framework import FilterPlugin, Status

class OnlyOne(FilterPlugin):
    name = "OnlyOne"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        return None if node.name.endswith("WANTED") else Status.unschedulable("not WANTED")
"""


async def pod_on(cluster: EmbeddedCluster, name: str) -> str:
    """Create a pod and say where it goes."""
    container = {"name": "main", "image": "none"}
    tree: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    await apply(cluster.core, Manifest({**tree, "spec": {"containers": [container]}}))
    while True:
        node = (await cluster.core.get("pods", name, namespace="default"))["spec"].get("nodeName")
        if node:
            return str(node)
        await asyncio.sleep(0.02)


async def config_map(cluster: EmbeddedCluster, data: dict[str, str]) -> None:
    metadata = {"name": "kuberth-scheduler", "namespace": "kube-system"}
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    await apply(cluster.core, Manifest(tree))


async def eventually(is_so: Callable[[], bool]) -> None:
    while True:
        if is_so():
            return
        await asyncio.sleep(0.02)


async def until(reports: list[str], words: str) -> None:
    await eventually(lambda: any(words in line for line in reports))
    reports.clear()


async def failed(cluster: EmbeddedCluster, *, times: int) -> None:
    assert cluster.scheduler is not None
    reloads = cluster.scheduler.metrics.configuration_reloads.values
    await eventually(lambda: reloads.get(("error",), 0) >= times)


async def reasons(cluster: EmbeddedCluster) -> set[str]:
    events = (await cluster.core.list("events.events.k8s.io", namespace="kube-system"))["items"]
    return {event["reason"] for event in events if event["regarding"].get("name") == "kuberth-scheduler"}


async def uids_of_events(cluster: EmbeddedCluster) -> set[str]:
    """What `kubectl describe` looks for: the uids of the objects that events are about."""
    events = (await cluster.core.list("events", namespace="kube-system"))["items"]
    return {event["involvedObject"].get("uid", "") for event in events}


Scenario = Callable[[EmbeddedCluster, list[str]], Awaitable[None]]


def play(scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, nodes: str = "1") -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "saved_rule.py").write_text(MODULE.replace("WANTED", nodes))
    reports: list[str] = []
    registry = build_registry(Extras(), ["saved_rule:OnlyOne"])
    reading = RuleReader(
        Extras(),
        registry,
        lambda text, plugins: configuration(text, plugins, {}),
        plugins=["saved_rule:OnlyOne"],
        queue=None,
        path=None,
        reloads_modules=True,
    )
    settings = ClusterSettings(
        nodes=3, port=0, registry=registry, rules=reading.read, rule_sources=reading.sources()
    )

    async def scene() -> None:
        async with asyncio.timeout(60), running_cluster(settings, progress=reports.append) as cluster:
            await scenario(cluster, reports)

    try:
        asyncio.run(scene())
    finally:
        sys.modules.pop("saved_rule", None)


def test_an_edited_config_map_is_in_force_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: EmbeddedCluster, reports: list[str]) -> None:
        await config_map(cluster, {"config.yaml": CONFIG})
        await until(reports, "in force (ConfigMap kube-system/kuberth-scheduler)")
        found = await cluster.core.get("configmaps", "kuberth-scheduler", namespace="kube-system")
        while found["metadata"]["uid"] not in await uids_of_events(cluster):  # noqa: ASYNC110 - of the cluster
            await asyncio.sleep(0.02)
        assert {await pod_on(cluster, f"p{number}") for number in range(4)} == {"node-1"}
        unknown, elsewhere = {"config.yaml": CONFIG.replace("OnlyOne", "Missing")}, {"other.yaml": CONFIG}
        for failures, bad in enumerate((unknown, elsewhere), start=1):
            await config_map(cluster, bad)
            await failed(cluster, times=failures)
            assert await pod_on(cluster, f"after-{failures}") == "node-1"
        await cluster.core.delete("configmaps", "kuberth-scheduler", namespace="kube-system")
        await until(reports, "in force")
        spread = {await pod_on(cluster, f"free-{number}") for number in range(6)}
        assert len(spread) > 1
        while True:
            if await reasons(cluster) == {"ConfigurationReloaded", "ConfigurationRejected"}:
                break
            await asyncio.sleep(0.02)

    play(scenario, tmp_path, monkeypatch)


def test_a_saved_module_decides_the_next_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: EmbeddedCluster, reports: list[str]) -> None:
        await config_map(cluster, {"config.yaml": CONFIG})
        await until(reports, "in force")
        assert await pod_on(cluster, "first") == "node-1"
        module = tmp_path / "saved_rule.py"
        module.write_text(MODULE.replace("WANTED", "2"))
        await until(reports, "in force (plugin modules)")
        assert await pod_on(cluster, "second") == "node-2"
        module.write_text("this is no Python")
        await failed(cluster, times=1)
        assert await pod_on(cluster, "third") == "node-2"
        module.write_text(MODULE.replace("WANTED", "3"))
        await until(reports, "in force (plugin modules)")
        assert await pod_on(cluster, "fourth") == "node-3"

    play(scenario, tmp_path, monkeypatch)


def test_a_plugin_that_does_not_start_ends_the_start_with_its_name() -> None:
    class Stuck(FilterPlugin):
        name = "Stuck"

        async def start(self) -> None:
            raise OSError("port 1 is taken")

        def filter(self, _state: Any, _pod: Any, _node: Any) -> None: ...

    registry = build_registry(Extras(plugins={"Stuck": Stuck}), [])
    tree = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    enabled = {"plugins": {"multiPoint": {"enabled": [{"name": "Stuck"}]}}}
    settings = ClusterSettings(
        nodes=1, port=0, registry=registry, config=load({**tree, "profiles": [enabled]})
    )

    async def scene() -> None:
        async with asyncio.timeout(60), running_cluster(settings):
            pytest.fail("it started")

    with pytest.raises(BaseExceptionGroup) as raised:
        asyncio.run(scene())
    assert "plugin 'Stuck' failed in start: OSError: port 1 is taken" in str(leaves(raised.value))


def leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves(each)]
    return [error]
