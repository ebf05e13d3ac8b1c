"""`--reload` with an installed package: the last step of the tutorial, and `kuberth run`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kuberth.cli.plugin import plugin_group
from kuberth.cli.run import run as run_command
from kuberth.cli.up import up as up_command
from kuberth.local.manifests import Manifest
from kuberth.programs.run.daemon import run as run_daemon
from kuberth.programs.up.cluster import ClusterSettings, EmbeddedCluster, apply, running_cluster

LABEL = "example.com/quiet-nodes"
RULE = "node.labels.get(self._args.label) != wanted"
OPPOSITE = "node.labels.get(self._args.label) == wanted"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What `kuberth plugin new` makes, found as pip's editable installation has it found."""
    monkeypatch.chdir(tmp_path)
    made = CliRunner().invoke(plugin_group, ["new", "quiet-nodes", "--points", "filter,score"])
    assert made.exit_code == 0, made.output
    folder = tmp_path / "quiet-nodes"
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entries = "".join(f"{name} = {at}\n" for name, at in project["entry-points"]["kuberth.plugins"].items())
    site = tmp_path / "site-packages"
    metadata = site / "quiet_nodes-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: quiet-nodes\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text(f"[kuberth.plugins]\n{entries}")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.syspath_prepend(str(folder / "src"))
    monkeypatch.chdir(folder)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "quiet_nodes"]:
        del sys.modules[name]


def settings_of(command: Any, program: str, *args: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a command would run."""
    seen: list[Any] = []

    async def instead(settings: Any) -> int:
        seen.append(settings)
        return 0

    with monkeypatch.context() as patched:
        patched.setattr(program, instead)
        patched.setattr("kuberth.cli.run.set_up_logging", lambda *_: None)  # it would replace caplog
        result = CliRunner().invoke(command, args)
    assert result.exit_code == 0, result.output
    (settings,) = seen
    return settings


async def node_of(cluster: EmbeddedCluster, name: str, *, scheduler: str = "default-scheduler") -> str:
    """The node of a new pod that wants a quiet one."""
    spec = {"containers": [{"name": "main", "image": "none"}], "schedulerName": scheduler}
    metadata = {"name": name, "labels": {LABEL: "yes"}}
    await apply(
        cluster.core, Manifest({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    )
    while True:
        node = (await cluster.core.get("pods", name, namespace="default"))["spec"].get("nodeName")
        if node:
            return str(node)
        await asyncio.sleep(0.02)


async def label_one(cluster: EmbeddedCluster) -> None:
    tree = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-2", "labels": {LABEL: "yes"}}}
    await apply(cluster.core, Manifest(tree))


async def logged(caplog: pytest.LogCaptureFixture, words: str) -> str:
    while True:
        if found := [text for text in caplog.messages if words in text]:
            caplog.clear()
            return found[0]
        await asyncio.sleep(0.02)


async def reported(reports: list[str], words: str) -> None:
    while True:
        if any(words in line for line in reports):
            reports.clear()
            return
        await asyncio.sleep(0.02)


def test_the_last_step_of_the_tutorial(
    package: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = ("--memory", "--nodes", "3", "--port", "0", "--no-page", "--kubeconfig-out", "up.kubeconfig")
    settings: ClusterSettings = settings_of(
        up_command,
        "kuberth.cli.up_display.run_cluster",
        *(*args, "--config", "config.yaml", "--reload"),
        monkeypatch=monkeypatch,
    )
    rule = package / "src" / "quiet_nodes" / "plugin.py"
    original, config = rule.read_text(), package / "config.yaml"
    reports: list[str] = []

    async def main() -> None:
        async with asyncio.timeout(60), running_cluster(settings, progress=reports.append) as cluster:
            await label_one(cluster)
            assert await node_of(cluster, "first") == "node-2"

            rule.write_text(original.replace(RULE, OPPOSITE))
            await reported(reports, "in force (plugin modules)")
            assert await node_of(cluster, "second") in ("node-1", "node-3")

            rule.write_text("class QuietNodes(:\n")
            problem = await logged(caplog, "keeping the old one")
            assert "plugin 'QuietNodes' of package quiet-nodes cannot be loaded" in problem
            assert "plugin.py, line 1" in problem
            assert await node_of(cluster, "third") in ("node-1", "node-3")

            rule.write_text(original.replace("class QuietNodes(", "class LoudNodes("))
            assert "QuietNodes" in await logged(caplog, "keeping the old one")
            assert await node_of(cluster, "fourth") in ("node-1", "node-3")

            rule.write_text(original.replace("points: int = 100", "weight: int = 100"))
            problem = await logged(caplog, "keeping the old one")
            assert "config.yaml" in problem
            assert "points" in problem
            assert await node_of(cluster, "fifth") in ("node-1", "node-3")

            config.write_text(config.read_text().replace("points: 100", "weight: 100"))
            await reported(reports, "in force (file")
            assert await node_of(cluster, "sixth") == "node-2"

    caplog.set_level(logging.ERROR)
    asyncio.run(main())


def test_run_reloads_an_installed_package_too(
    package: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded = ClusterSettings(nodes=3, port=0, with_scheduler=False, kubeconfig_out=package / "kubeconfig")
    rule = package / "src" / "quiet_nodes" / "plugin.py"

    async def main() -> None:
        async with asyncio.timeout(60), running_cluster(embedded) as cluster:
            flags = ("--config", "config.yaml", "--kubeconfig", str(cluster.kubeconfig_path), "--reload")
            settings = await asyncio.to_thread(
                settings_of,
                run_command,
                "kuberth.cli.run_settings.run_daemon",
                *(*flags, "--leader-elect=false", "--secure-port=0"),
                monkeypatch=monkeypatch,
            )
            assert settings.flags["reload"] == "true"
            program = asyncio.create_task(run_daemon(settings), name="kuberth run")
            try:
                await label_one(cluster)
                assert await node_of(cluster, "first") == "node-2"
                rule.write_text(rule.read_text().replace(RULE, OPPOSITE))
                await logged(caplog, "in force (plugin modules)")
                assert await node_of(cluster, "second") in ("node-1", "node-3")
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                assert await program == 0

    caplog.set_level(logging.INFO)
    asyncio.run(main())
