"""Notices at the start: requests that have no effect, and where plugins are looked for."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kuberth.framework.registry
from kuberth.cli.config import config_group
from kuberth.cli.context import Extras, build_registry, notices
from kuberth.config import load
from kuberth.framework.registry import ENTRY_POINT_GROUP, resolve_reference
from tests.unit.config.harness import document, with_plugins

PLUGIN = """
from kuberth.framework.extension_points import FilterPlugin


class Own(FilterPlugin):
    name = "Own"

    def filter(self, state, pod, node):
        return None
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "noticed_plugin.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.delitem(sys.modules, "noticed_plugin", raising=False)
    return "noticed_plugin:Own"


def notices_of(tree: Any, *references: str) -> list[str]:
    registry = build_registry(Extras(), references)
    config = load(tree, known_plugins=registry.names(), extension_points=registry.extension_points())
    return list(notices(config, registry, references=references))


def test_a_plain_configuration_has_no_notices() -> None:
    assert notices_of(document()) == []


def test_a_plugin_that_no_profile_enables(own_module: str) -> None:
    (notice,) = notices_of(document(), own_module)
    assert notice.startswith(f"plugin Own, given with --plugin {own_module}, is enabled in no profile")
    assert notices_of(with_plugins(multiPoint={"enabled": [{"name": "Own"}]}), own_module) == []
    assert notices_of(with_plugins(filter={"enabled": [{"name": "Own"}]}), own_module) == []


@pytest.mark.parametrize(
    ("point", "name", "weight", "warned"),
    [
        ("score", "ImageLocality", 0, True),
        ("multiPoint", "ImageLocality", 0, True),
        ("score", "ImageLocality", None, False),
        ("score", "ImageLocality", 2, False),
        ("multiPoint", "NodeName", 0, False),
    ],
    ids=["score", "multiPoint", "no weight", "a weight", "does not score"],
)
def test_a_weight_of_zero(point: str, name: str, weight: int | None, warned: bool) -> None:
    ref = {"name": name} if weight is None else {"name": name, "weight": weight}
    found = notices_of(with_plugins(**{point: {"enabled": [ref]}}))
    expected = (
        f"profile default-scheduler, plugins.{point}: {name} has weight 0, which counts as 1, as in "
        "kube-scheduler; to turn its scores off, add it to plugins.score.disabled"
    )
    assert found == ([expected] if warned else [])


def test_an_entry_point_under_another_name(own_module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_reference(own_module, option="--plugin")
    entry = importlib.metadata.EntryPoint("Other", own_module, ENTRY_POINT_GROUP)
    monkeypatch.setattr(kuberth.framework.registry, "installed_plugins", lambda: [entry])
    (notice,) = notices_of(document())
    assert "is called Own by its class but Other by its entry point" in notice


def test_config_validate_prints_notices_too(own_module: str) -> None:
    result = CliRunner().invoke(
        config_group, ["validate", "-", "--plugin", own_module], input=str(document())
    )
    assert result.exit_code == 0, result.output
    assert "is enabled in no profile" in result.stderr


def test_a_file_in_the_working_directory_hides_no_installed_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site"
    installed.mkdir()
    (installed / "a_plugin_package.py").write_text("WHERE = 'installed'")
    (tmp_path / "a_plugin_package.py").write_text("WHERE = 'working directory'")
    (tmp_path / "only_here.py").write_text("WHERE = 'working directory'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*(path for path in sys.path if path), str(installed)])
    assert resolve_reference("a_plugin_package:WHERE", option="--plugin") == "installed"
    assert resolve_reference("only_here:WHERE", option="--plugin") == "working directory"
