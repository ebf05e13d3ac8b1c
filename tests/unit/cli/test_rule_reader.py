"""Which sources a running scheduler's rules have."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from kuberth.cli import rule_reader
from kuberth.cli.context import Extras, build_registry
from kuberth.cli.rule_reader import RuleReader
from kuberth.config import KubeSchedulerConfiguration, default_configuration
from kuberth.framework.registry import ENTRY_POINT_GROUP, Registry

FILE = Path("/etc/kuberth/config.yaml")


def reader(*, path: Path | None = FILE, reloads_modules: bool = True) -> RuleReader:
    def load(_text: str | None, _registry: Registry) -> KubeSchedulerConfiguration:
        return default_configuration()

    registry = build_registry(Extras(), [])
    queue = "my_queues:Mine(share=0.25)"
    plugins = ["my_rules.quiet:Quiet"]
    return RuleReader(
        Extras(), registry, load, plugins=plugins, queue=queue, path=path, reloads_modules=reloads_modules
    )


@pytest.mark.parametrize(
    ("path", "reloads_modules", "names"),
    [
        (None, False, []),
        (FILE, False, [f"file {FILE}"]),
        (None, True, ["plugin modules"]),
        (FILE, True, [f"file {FILE}", "plugin modules"]),
    ],
    ids=["nothing", "a file", "modules", "both"],
)
def test_what_is_watched(path: Path | None, reloads_modules: bool, names: list[str]) -> None:
    found = reader(path=path, reloads_modules=reloads_modules).sources()
    assert [source.name for source in found] == names


def test_modules_of_options_and_of_installed_packages_are_reloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        importlib.metadata.EntryPoint("Loud", "loud_nodes.plugin:Loud", ENTRY_POINT_GROUP),
        *importlib.metadata.entry_points(group=ENTRY_POINT_GROUP, name="Coscheduling"),  # Kuberth's own
    ]
    assert len(entries) == 2
    monkeypatch.setattr(rule_reader, "installed_plugins", lambda: entries)
    given: list[str] = []
    monkeypatch.setattr(rule_reader, "FreshModules", given.extend)
    reader()
    assert given == ["my_rules.quiet", "my_queues", "loud_nodes.plugin"]


def test_without_reload_the_plugins_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_reader, "notices", lambda *_, **__: ["mind this"])
    reading = reader(reloads_modules=False)
    rules = reading.read()
    assert rules.registry is reading.read().registry
    assert rules.queue is None
