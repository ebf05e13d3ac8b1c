from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from kuberth.config import load
from kuberth.config.in_tree import IN_TREE_PLUGINS
from kuberth.errors import ConfigError
from kuberth.evaluation import Evaluator
from kuberth.framework import FilterPlugin, Plugin, Registry, ReservePlugin, ScorePlugin
from kuberth.framework.extension_points import points_of
from kuberth.framework.registry import SHIPPED, PluginFactory, resolve_reference
from kuberth.plugins import IN_TREE, in_tree_registry
from kuberth.testing import profile
from tests.unit.framework.harness import build, make_handle, plugin

FINE = """
from kuberth.framework import FilterPlugin

class Fine(FilterPlugin):
    name = "Fine"

    def filter(self, state, pod, node):
        return None

class Nameless(FilterPlugin):
    def filter(self, state, pod, node):
        return None

class Holder:
    Fine = Fine

def make(args, handle):
    return Fine(args, handle)

NUMBER = 5
"""
CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on sys.path, as installed packages are; what is imported from it is forgotten after."""
    known = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def install(folder: Path, *entry_points: str, module: str = FINE, name: str = "my_plugins") -> None:
    """A distribution as pip leaves it: a module and a dist-info with entry points."""
    (folder / f"{name}.py").write_text(module)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(("[kuberth.plugins]", *entry_points)) + "\n")


# In-tree


def test_every_plugin_of_kuberth_is_registered_under_its_name() -> None:
    registry = in_tree_registry()
    assert registry.names() == tuple(IN_TREE_PLUGINS)
    assert len(registry) == len(IN_TREE) == 23
    assert all(registry[each.name] is each for each in IN_TREE)


@pytest.mark.parametrize("each", IN_TREE, ids=lambda each: each.name)
def test_the_table_of_plugins_has_the_points_that_the_class_serves(each: type[Plugin]) -> None:
    assert sorted(IN_TREE_PLUGINS[each.name].points) == sorted(points_of(each))


# Packages


def test_plugins_of_installed_packages(packages: Path) -> None:
    install(packages, "Fine = my_plugins:Fine")
    registry = Registry()
    registry.load_entry_points()
    assert "Fine" in registry
    assert registry["Fine"].__module__ == "my_plugins"
    assert registry.extension_points()["Fine"] == ("filter",)


def test_the_class_of_an_installed_package_may_be_given_in_code_too(packages: Path) -> None:
    """As the package's own tests do."""
    install(packages, "Fine = my_plugins:Fine")
    registry = Registry()
    registry.load_entry_points()
    registry.merge(Registry({"Fine": registry["Fine"]}))
    assert registry.origin("Fine") == "package my_plugins"


def test_a_package_may_give_a_function(packages: Path) -> None:
    install(packages, "Fine = my_plugins:make")
    registry = Registry()
    registry.load_entry_points()
    assert registry["Fine"](None, make_handle()).name == "Fine"
    assert "Fine" not in registry.extension_points()


@pytest.mark.parametrize(
    "entry_point, module, message",
    [
        pytest.param(
            "Fine = my_plugins:Missing",
            FINE,
            "plugin 'Fine' of package my_plugins cannot be loaded from my_plugins:Missing: .*Missing.*"
            "fix or uninstall the package",
            id="no-such-class",
        ),
        pytest.param(
            "Fine = my_plugins:Fine",
            "1 / 0",
            "plugin 'Fine' of package my_plugins cannot be loaded .*division by zero",
            id="the-module-fails",
        ),
        pytest.param(
            "Number = my_plugins:NUMBER",
            FINE,
            "plugin 'Number' of package my_plugins is not a class or factory but 5",
            id="not-callable",
        ),
        pytest.param(
            "Fine = my_plugins:Fine",
            FINE.replace('name = "Fine"', 'name = "Fine"\n    args_type = dict'),
            "plugin 'Fine' of package my_plugins has the args_type .*derive it from msgspec.Struct",
            id="arguments-of-no-struct",
        ),
        pytest.param(
            "Fine = my_plugins:Fine",
            "import msgspec\n\n\nclass Args(msgspec.Struct):\n    weight: 'Missing'\n\n\n"
            + FINE.replace('name = "Fine"', 'name = "Fine"\n    args_type = Args'),
            "plugin 'Fine' of package my_plugins has the args_type Args, .*'Missing' is not defined",
            id="arguments-of-unknown-types",
        ),
    ],
)
def test_packages_that_cannot_be_used_harm_only_those_who_enable_them(
    packages: Path, entry_point: str, module: str, message: str
) -> None:
    install(packages, entry_point, module=module)
    registry = in_tree_registry()
    registry.load_entry_points()
    name = entry_point.split()[0]
    with pytest.raises(ConfigError, match=message):
        Evaluator(config=load({**CONFIGURATION, "profiles": [profile(name)]}), registry=registry)
    Evaluator(config=load({**CONFIGURATION, "profiles": [profile("NodeName")]}), registry=registry)


def test_a_plugin_in_code_takes_the_place_of_one_that_cannot_be_loaded(packages: Path) -> None:
    install(packages, "NodeName = my_plugins:Missing\nFine = my_plugins:Missing")
    registry = in_tree_registry()
    registry.load_entry_points()
    assert registry.origin("NodeName") == "kuberth"
    registry.merge(Registry({"Fine": IN_TREE[0]}))
    assert registry["Fine"] is IN_TREE[0]


def test_two_plugins_of_one_name(packages: Path) -> None:
    install(packages, "NodeName = my_plugins:Fine")
    words = "two plugins are called 'NodeName', from kuberth and from package my_plugins; rename one"
    with pytest.raises(ConfigError, match=words):
        in_tree_registry().load_entry_points()


# module:Class


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "\n\nimport no_such_module_at_all\n",
            "No module named 'no_such_module_at_all' .*odd.py, line 3.*installed",
        ),
        ("x = 1\ny = x.z\n", "AttributeError: .* .*odd.py, line 2"),
        ("x = (\n", "SyntaxError: .* was never closed .*odd.py, line 1"),
        (
            "from other import A\nB = 1\n",
            "circular import: cannot import name 'B' .*other.py, line 1.; move the import",
        ),
    ],
    ids=["missing", "raises", "syntax", "circular"],
)
def test_an_import_that_fails_says_where(packages: Path, text: str, message: str) -> None:
    (packages / "odd.py").write_text(text)
    (packages / "other.py").write_text("from odd import B\nA = 1\n")
    try:
        with pytest.raises(ConfigError, match=message):
            Registry().load_reference("odd:Fine")
    finally:
        sys.modules.pop("odd", None)
        sys.modules.pop("other", None)


def test_a_plugin_by_reference(packages: Path) -> None:
    install(packages)
    registry = Registry()
    assert registry.load_reference("my_plugins:Fine") == "Fine"
    assert "Fine" in registry


def test_a_reference_into_a_class(packages: Path) -> None:
    install(packages)
    assert Registry().load_reference("my_plugins:Holder.Fine") == "Fine"


@pytest.mark.parametrize(
    "reference, message",
    [
        ("my_plugins", "--plugin 'my_plugins' must look like module:Name"),
        (":Fine", "must look like module:Name"),
        ("my_plugins:", "must look like module:Name"),
        ("", "must look like module:Name"),
        (
            "no_such_module:Fine",
            "module 'no_such_module' cannot be imported: .*; is it installed, or on PYTHONPATH",
        ),
        (
            "failing_module:Fine",
            "module 'failing_module' cannot be imported: ZeroDivisionError: division by zero",
        ),
        ("exiting_module:Fine", "module 'exiting_module' cannot be imported: SystemExit: 3"),
        (".relative:Fine", "module '.relative' cannot be imported: TypeError"),
        ("my_plugins:Missing", "module 'my_plugins' has no 'Missing'"),
        ("my_plugins:Holder.Missing", "module 'my_plugins' has no 'Holder.Missing'"),
        (
            "my_plugins:NUMBER",
            "--plugin my_plugins:NUMBER: 5 is not a class derived from kuberth.framework.Plugin",
        ),
        ("my_plugins:make", "is not a class derived from kuberth.framework.Plugin"),
        ("my_plugins:Holder", "is not a class derived from kuberth.framework.Plugin"),
        (
            "my_plugins:Nameless",
            "plugin class Nameless from --plugin my_plugins:Nameless has no `name`; give it one",
        ),
    ],
    ids=lambda value: value if " " not in value else "",
)
def test_references_that_lead_nowhere(packages: Path, reference: str, message: str) -> None:
    install(packages)
    (packages / "failing_module.py").write_text("1 / 0")
    (packages / "exiting_module.py").write_text("raise SystemExit(3)")
    with pytest.raises(ConfigError, match=message):
        Registry().load_reference(reference)


def test_the_same_reference_twice(packages: Path) -> None:
    install(packages)
    registry = Registry()
    registry.load_reference("my_plugins:Fine")
    with pytest.raises(
        ConfigError, match=r"two plugins are called 'Fine', from --plugin my_plugins:Fine and"
    ):
        registry.load_reference("my_plugins:Fine")


def test_a_reference_names_the_option_it_came_from() -> None:
    with pytest.raises(ConfigError, match="--queue 'x' must look like module:Name"):
        resolve_reference("x", option="--queue")


# Code


class Arguments(msgspec.Struct):
    level: int = 1


class Typed(FilterPlugin, ScorePlugin):
    name = "Typed"
    args_type = Arguments

    def filter(self, *_: object) -> None: ...

    def score(self, *_: object) -> int:
        return 0


def test_a_registry_lists_points_and_argument_types() -> None:
    registry = Registry({"Typed": Typed, "Made": lambda args, handle: Typed(args, handle)})
    assert registry.extension_points() == {"Typed": ("filter", "score")}
    assert registry.args_types() == {"Typed": Arguments}
    assert list(registry) == ["Typed", "Made"]


def test_registries_merge_unless_names_clash() -> None:
    registry = in_tree_registry()
    registry.merge(Registry({"Typed": Typed}))
    assert "Typed" in registry
    with pytest.raises(ConfigError, match="two plugins are called 'NodeName', from kuberth and from code"):
        registry.merge(Registry({"NodeName": Typed}))


@pytest.mark.parametrize("name", ["", None, 5], ids=["empty", "none", "number"])
def test_a_class_needs_a_name(name: object) -> None:
    made = plugin("P", FilterPlugin, filter=None)
    made.name = cast(str, name)
    with pytest.raises(ConfigError, match="plugin class P from the test has no `name`"):
        Registry().register_class(made, origin="the test")


@pytest.mark.parametrize(
    "factory, message",
    [
        pytest.param(lambda _a, _h: None, "its factory returned None, which is not a", id="nothing"),
        pytest.param(lambda _a, _h: Typed, "its factory returned <class", id="a-class"),
        pytest.param(
            lambda _a, _h: 5, "its factory returned 5, which is not a kuberth.framework.Plugin", id="a-number"
        ),
        pytest.param(
            lambda _a, _h: Typed(), "returned a plugin called 'Typed'; register it under", id="another-name"
        ),
        pytest.param(
            Typed, "returned a plugin called 'Typed'; register it under", id="a-class-of-another-name"
        ),
        pytest.param(
            plugin("P", ReservePlugin, reserve=None),
            "'P' cannot be initialized: .*unreserve",
            id="incomplete",
        ),
        pytest.param(
            lambda: None,
            r"'P' cannot be initialized: <lambda> \(.*test_registry.py, line \d+\) takes \(\), but it is "
            r"called with the plugin's arguments and the handle: expected \(args, handle\)",
            id="takes-no-arguments",
        ),
    ],
)
def test_factories_that_make_no_such_plugin(factory: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"plugin 'P'.*{message}|plugin {message}"):
        build(factories={"P": cast(PluginFactory, factory)})


def test_a_nameless_class_in_code() -> None:
    class Nameless(FilterPlugin):
        def filter(self, *_: object) -> None: ...

    with pytest.raises(ConfigError, match="plugin 'P': its factory returned a plugin called None"):
        build(factories={"P": cast("type[Plugin]", Nameless)})


def test_what_is_no_factory_at_all() -> None:
    with pytest.raises(ConfigError, match="plugin 'P' from code is not a class or factory but 5"):
        Registry({"P": cast(PluginFactory, 5)})


@pytest.mark.parametrize("shipped_first", [True, False])
def test_a_plugin_of_yours_counts_before_a_shipped_one_of_its_name(shipped_first: bool) -> None:
    registry = Registry()
    given: list[tuple[PluginFactory, str]] = [
        (lambda args, handle: Typed(args, handle), SHIPPED),
        (Typed, "package mine"),
    ]
    for factory, origin in given if shipped_first else reversed(given):
        registry.register("Coscheduling", factory, origin=origin)
    assert registry["Coscheduling"] is Typed
    assert registry.origin("Coscheduling") == "package mine"
