"""The examples do what they say."""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from examples import which_nodes
from examples.prefer_quiet_nodes import PreferQuietNodes, QuietArgs

from kuberth.assembly.profiles import full_registry
from kuberth.cli import main
from kuberth.clock import run_in_virtual_time
from kuberth.config import load
from kuberth.local.manifests import Manifest
from kuberth.programs.up.cluster import ClusterSettings, running_cluster
from kuberth.queue.fair_share import fair_share
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import profile, running


def test_which_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    answer = which_nodes.ask()
    assert answer.feasible == ("busy", "free")
    assert answer.totals["free"] > answer.totals["busy"]
    assert answer.rejections["small"].plugin == "NodeResourcesFit"
    assert answer.rejections["reserved"].plugin == "TaintToleration"
    which_nodes.main()
    assert "reserved: no (TaintToleration: " in capsys.readouterr().out


def test_the_notebook_runs_and_packing_shortens_waits(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(which_nodes.__file__).parent / "simulate" / "compare_policies.ipynb"
    namespace: dict[str, Any] = {}

    async def kernel() -> None:
        for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), str(file), "exec"), namespace)

    asyncio.run(kernel())  # Jupyter runs cells in an event loop
    assert namespace["comparison"].figure("wait mean (s)", "packed").difference < 0
    assert "rejected" in capsys.readouterr().out
    assert namespace["report"].startswith("<!doctype html>")


def test_a_rule_of_ones_own_decides() -> None:
    async def scenario() -> None:
        async with running(
            make_node("quiet", labels={"quiet": "true"}),
            make_node("loud"),
            make_pod("noise", node="loud"),
            profiles=[profile("PreferQuietNodes")],
            plugins={"PreferQuietNodes": PreferQuietNodes},
        ) as world:
            world.api.put(make_pod("host"))
            await world.bound("host")
            world.api.put(make_pod("guest", labels={"guest": "true"}))
            await world.bound("guest")
            assert (world.node_of("host"), world.node_of("guest")) == ("quiet", "loud")

    run_in_virtual_time(scenario)


def test_its_hint_waits_for_a_node_that_can_help() -> None:
    async def scenario() -> None:
        async with running(
            make_node("quiet", labels={"quiet": "true"}),
            make_pod("guest", labels={"guest": "true"}),
            profiles=[profile("PreferQuietNodes")],
            plugins={"PreferQuietNodes": PreferQuietNodes},
        ) as world:
            await world.in_queue("guest", "unschedulable")
            world.api.put(make_node("also-quiet", labels={"quiet": "true"}))
            await world.quiet(seconds=5)
            assert world.queue_of("guest") == "unschedulable"
            world.api.put(make_node("loud"))
            await world.bound("guest", seconds=5)

    run_in_virtual_time(scenario)


def test_its_arguments_are_typed() -> None:
    assert PreferQuietNodes.args_type is QuietArgs


def test_a_cluster_with_a_plugin_a_configuration_and_another_queue() -> None:
    registry = full_registry({"PreferQuietNodes": PreferQuietNodes})
    settings = ClusterSettings(
        nodes=3,
        port=0,
        config=load(
            Path("examples/quiet.yaml"), known_plugins=registry.names(), args_types=registry.args_types()
        ),
        registry=registry,
        queue=fair_share(),
        manifests=[
            Manifest(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": f"p{number}", "namespace": "default"},
                    "spec": {"containers": [{"name": "main", "image": "none"}]},
                }
            )
            for number in range(6)
        ],
    )

    async def main() -> Counter[str]:
        async with asyncio.timeout(30), running_cluster(settings) as cluster:
            while True:
                pods = (await cluster.core.list("pods", namespace="default"))["items"]
                nodes = Counter(pod["spec"].get("nodeName", "") for pod in pods)
                if not nodes[""]:
                    return nodes
                await asyncio.sleep(0.02)

    # The rule prefers nodes with few pods, so they are spread evenly.
    assert sorted((+asyncio.run(main())).values()) == [2, 2, 2]


def test_a_distribution_of_ones_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["own", "config", "validate", "examples/quiet.yaml"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("examples.own_distribution", run_name="__main__")
    assert ended.value.code == 0
    assert "valid, 1 profile, 21 plugins" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--plugin", "nowhere:Nothing"], "module 'nowhere' cannot be imported"),
        (["--plugin", "examples.prefer_quiet_nodes"], "must look like module:Name"),
        (["--plugin", "examples.prefer_quiet_nodes:QuietArgs"], "is not a class derived from"),
        (["--queue", "kuberth.queue.fair_share:Nothing"], "has no 'Nothing'"),
        (["--config", "examples/quiet.yaml"], "PreferQuietNodes"),
    ],
)
def test_wrong_words_get_a_clear_line(
    args: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(args=["up", *args])
    assert ended.value.code == 1
    assert problem in capsys.readouterr().err
