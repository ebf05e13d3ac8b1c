"""The life of `kuberth shadow`: when it ends, which profile decides, what it says when nothing comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kuberth.api.core import Binding
from kuberth.api.wire import convert
from kuberth.assembly.profiles import full_registry
from kuberth.config import default_configuration, load
from kuberth.errors import ConfigError
from kuberth.programs.shadow.decisions import ShadowDecision
from kuberth.programs.shadow.program import QUIET_SECONDS, ShadowRun, ShadowSettings, profile_for
from kuberth.testing import MemoryApi, make_node, make_pod, run_in_virtual_time


class Reports:
    def __init__(self) -> None:
        self.decisions: list[ShadowDecision] = []
        self.sentences: list[str] = []


def shadow_run(api: MemoryApi, **settings: Any) -> tuple[ShadowRun, Reports]:
    reports = Reports()
    made = ShadowSettings(config=default_configuration(), registry=full_registry(), **settings)
    return ShadowRun(
        made, api, on_decision=reports.decisions.append, on_message=reports.sentences.append
    ), reports


async def bind(api: MemoryApi, name: str) -> None:
    tree = {"metadata": {"name": name, "namespace": "default"}, "target": {"kind": "Node", "name": "n1"}}
    await api.bind(convert(Binding, tree))


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_in_virtual_time(scene, limit_seconds=600)


def test_it_ends_in_time() -> None:
    async def scene() -> None:
        api = MemoryApi()
        api.put(make_node("n1"))
        run, reports = shadow_run(api, for_seconds=100)
        loop = asyncio.get_running_loop()
        started = loop.time()
        report = await run.until_end()
        assert loop.time() - started == pytest.approx(100)
        assert report.decisions == 0
        assert reports.sentences[0].startswith("following 1 nodes and 0 placed pods; deciding beside")

    play(scene)


def test_it_ends_after_the_given_number_of_pods() -> None:
    async def scene() -> None:
        api = MemoryApi()
        api.put(make_node("n1"))
        run, reports = shadow_run(api, pods=2)
        ending = asyncio.ensure_future(run.until_end())
        await run.shadow.synced.wait()
        for name in "abc":
            api.put(make_pod(name))
            await asyncio.sleep(0.01)
            await bind(api, name)
        report = await ending
        assert [each.pod for each in reports.decisions] == ["default/a", "default/b"]
        assert report.placed == 2

    play(scene)


def test_a_scheduler_name_without_pods_is_reported() -> None:
    async def scene() -> None:
        api = MemoryApi()
        api.put(make_node("n1"))
        for i in range(3):
            api.put(make_pod(f"p{i}", scheduler="default-scheduler"))
        run, reports = shadow_run(api, scheduler_name="defualt-scheduler", for_seconds=3 * QUIET_SECONDS)
        await run.until_end()
        assert "no pod of scheduler 'defualt-scheduler' was seen" in reports.sentences[-1]
        assert "default-scheduler (3)" in reports.sentences[-1]
        assert "--scheduler-name" in reports.sentences[-1]

    play(scene)


def test_an_empty_cluster() -> None:
    async def scene() -> None:
        run, reports = shadow_run(MemoryApi(), for_seconds=3 * QUIET_SECONDS)
        await run.until_end()
        assert "there are no pods" in reports.sentences[-1]

    play(scene)


def test_a_cluster_that_cannot_be_listed() -> None:
    class Silent(MemoryApi):
        async def list(self, *_arguments: Any, **_named: Any) -> Any:
            await asyncio.Event().wait()

    async def scene() -> None:
        run, reports = shadow_run(Silent(), for_seconds=2 * QUIET_SECONDS)
        assert (await run.until_end()).decisions == 0
        assert [sentence.partition(" within")[0] for sentence in reports.sentences] == [
            "not everything could be listed"
        ]

    play(scene)


def profiles(*names: str) -> Any:
    return load(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": name} for name in names],
        }
    )


@pytest.mark.parametrize(
    ("names", "expected"), [(["a", "real"], "real"), (["mine"], "mine")], ids=["its own", "the only one"]
)
def test_which_profile_decides(names: list[str], expected: str) -> None:
    assert profile_for(profiles(*names), "real") == expected


def test_several_profiles_and_none_of_that_name() -> None:
    with pytest.raises(ConfigError, match=r"no profile for scheduler 'real', but several others: a, b"):
        profile_for(profiles("a", "b"), "real")
