"""When a configuration is read again, and what is reported about it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kuberth.api.coordination import Lease
from kuberth.api.meta import ObjectMeta
from kuberth.clock import run_in_virtual_time
from kuberth.config import KubeSchedulerConfiguration, load
from kuberth.errors import ConfigError
from kuberth.programs.reloading import CHECK_SECONDS, Reloading, Rules, RuleSource, file_source
from kuberth.testing.harness import API_VERSION, World, profile, running

LEASE = Lease(metadata=ObjectMeta(name="kube-scheduler", namespace="kube-system"))


def named(*names: str) -> KubeSchedulerConfiguration:
    profiles = [profile(name=name) for name in names]
    return load({"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": profiles})


class Scene:
    """A source that changes when the test says so, and the rules that are read then."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.version = 0
        self.rules: KubeSchedulerConfiguration | ConfigError = named("first")
        self.reads = 0
        self.reports: list[str] = []
        self.reloading = Reloading(
            world.scheduler,
            self.read,
            sources=[RuleSource("the source", self.look)],
            regarding=lambda: LEASE,
            report=self.reports.append,
        )

    async def look(self) -> object:
        return self.version

    async def read(self) -> Rules:
        self.reads += 1
        if isinstance(self.rules, ConfigError):
            raise self.rules
        return Rules(self.rules)

    def names(self) -> list[str]:
        return list(self.world.scheduler.runners)

    def counted(self) -> dict[tuple[str, ...], float]:
        return dict(self.world.scheduler.metrics.configuration_reloads.values)


def play(scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def scene() -> None:
        async with running(profiles=[profile(name="first")]) as world:
            made = Scene(world)
            following = asyncio.create_task(made.reloading.run(), name="reloading")
            await world.quiet(seconds=3 * CHECK_SECONDS)
            try:
                await scenario(made)
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    run_in_virtual_time(scene)


def test_nothing_is_read_while_nothing_changes() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.world.quiet(seconds=60)
        assert scene.reads == 0

    play(scenario)


def test_a_change_is_read_once_and_logged() -> None:
    async def scenario(scene: Scene) -> None:
        scene.version, scene.rules = 1, named("second", "third")
        await scene.world.until(lambda: scene.names() == ["second", "third"])
        await scene.world.quiet(seconds=60)
        assert scene.reads == 1
        assert scene.counted() == {("success",): 1}
        assert scene.reports == ["a new configuration is in force (the source); profiles: second, third"]
        assert scene.world.events("ConfigurationReloaded") == [
            "A new configuration is in force; profiles: second, third"
        ]

    play(scenario)


def test_it_can_be_asked_for() -> None:
    async def scenario(scene: Scene) -> None:
        scene.rules = named("second")
        scene.reloading.request()
        await scene.world.until(lambda: scene.names() == ["second"], seconds=CHECK_SECONDS)
        assert "it was asked for" in scene.reports[0]

    play(scenario)


def test_bad_rules_change_nothing_and_say_why(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(scene: Scene) -> None:
        scene.version, scene.rules = 1, ConfigError("config.yaml: profiles[0]: no such thing")
        await scene.world.until(lambda: scene.reads == 1)
        await scene.world.quiet()
        assert scene.names() == ["first"]
        assert scene.counted() == {("error",): 1}
        assert scene.reports == []
        assert "keeping the old one: config.yaml: profiles[0]: no such thing" in caplog.text
        assert scene.world.events("ConfigurationRejected") == [
            "The old configuration stays in force: config.yaml: profiles[0]: no such thing"
        ]
        scene.version, scene.rules = 2, named("second")
        await scene.world.until(lambda: scene.names() == ["second"])

    play(scenario)


def test_what_takes_effect_at_the_next_start_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(scene: Scene) -> None:
        tree = {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration"}
        scene.rules = load({**tree, "profiles": [profile(name="second")], "clientConnection": {"qps": 7}})
        scene.reloading.request()
        await scene.world.until(lambda: scene.names() == ["second"])
        assert "the new client connection takes effect at the next start" in caplog.text
        assert "leader election" not in caplog.text

    play(scenario)


def test_a_file_is_seen_to_change(tmp_path: Path) -> None:
    """Rewritten, replaced, a link that leads elsewhere, gone."""
    first, second, link = tmp_path / "first", tmp_path / "second", tmp_path / "link"
    first.write_text("a")
    second.write_text("a")
    link.symlink_to(first)
    source = file_source(link)
    seen = [asyncio.run(source.state()), asyncio.run(source.state())]
    assert seen[0] == seen[1]
    first.write_text("ab")
    seen.append(asyncio.run(source.state()))
    other = tmp_path / "other"
    other.symlink_to(second)
    os.replace(other, link)
    seen.append(asyncio.run(source.state()))
    link.unlink()
    seen.append(asyncio.run(source.state()))
    assert len(set(map(repr, seen[1:]))) == 4
