"""The package imports what plugins of others can rely on: documented names and the public modules' own."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import kuberth_plugins
from kuberth.framework import Registry
from kuberth.framework.registry import resolve_reference
from kuberth_plugins.capacity_scheduling import elastic_quota_kind
from kuberth_plugins.coscheduling import pod_group_kind
from kuberth_plugins.strict_fifo import StrictFifoQueue
from kuberth_plugins.two_step_binding import node_preparation_kind

ROOT = Path(__file__).parents[3]
SOURCES = sorted(Path(kuberth_plugins.__file__).parent.glob("*.py"))
MODULES = ("kuberth.api", "kuberth.framework", "kuberth.queue")
PAGES = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("reference.md", "plugins.md")]
DOCUMENTED = {
    (module, name)
    for page in PAGES
    for module, names in re.findall(r"from (kuberth\S*) import ([\w, ]+)", page)
    for name in names.split(", ")
} | {("kuberth.api.quantity", "parse")}  # in the text of the reference, above the tables of fields


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_imports_are_public(source: Path) -> None:
    private = [
        f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "kuberth"
        for alias in node.names
        if (node.module, alias.name) not in DOCUMENTED
        and not (node.module in MODULES and alias.name in import_module(str(node.module)).__all__)
    ]
    assert private == []
    whole = [
        alias.name
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name.split(".")[0] == "kuberth"
    ]
    assert whole == []


def test_the_scheduler_does_not_know_the_package() -> None:
    source = ROOT / "src" / "kuberth"
    assert [
        path for path in source.rglob("*.py") if "kuberth_plugins" in path.read_text(encoding="utf-8")
    ] == []


def test_every_plugin_is_named_by_an_entry_point_and_every_kind_has_a_manifest() -> None:
    registry = Registry()
    registry.load_entry_points()
    modules = {name: str(getattr(registry[name], "__module__", "")) for name in registry}
    shipped = sorted(name for name, module in modules.items() if module.startswith("kuberth_plugins."))
    names = "CapacityScheduling Coscheduling LoadAware NamespacePodQuota TwoStepBinding"
    assert shipped == names.split()
    queues = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["kuberth.queues"]
    assert resolve_reference(queues["StrictFifoQueue"], option="") is StrictFifoQueue
    for kind in (pod_group_kind(), elastic_quota_kind(), node_preparation_kind()):
        manifest = ROOT / "src" / "kuberth_plugins" / "manifests" / f"{kind.__name__.lower()}s.yaml"
        definition, role = yaml.safe_load_all(manifest.read_text(encoding="utf-8"))
        spec = definition["spec"]
        assert (spec["names"]["kind"], f"{spec['group']}/{spec['versions'][0]['name']}") == (
            kind.__name__,
            kind.api_version,
        )
        assert role["rules"][0]["resources"] == [spec["names"]["plural"]]
