"""Fixtures for tests of plugins. pytest finds them by the entry point of the installed package.

def test_my_rule(kuberth_evaluator):
    evaluator = kuberth_evaluator(MyPlugin, make_node("n1"), make_node("n2"))
    assert evaluator.feasible(make_pod("p")) == ["n2"]
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

# Imported by every run of pytest with Kuberth installed, so it imports the rest only when a fixture is used.
if TYPE_CHECKING:
    from kuberth.evaluation import Evaluator
    from kuberth.framework.extension_points import Plugin
    from kuberth.testing.harness import World


@pytest.fixture
def kuberth_evaluator() -> Callable[..., Evaluator]:
    """Creates an `Evaluator` with a plugin and the default ones: `(plugin, *objects, args=None)`."""
    from kuberth.assembly.profiles import full_registry, load_configuration
    from kuberth.evaluation import Evaluator
    from kuberth.framework.extension_points import QueueSortPlugin
    from kuberth.testing.harness import configuration

    def make(plugin: type[Plugin], *objects: Any, args: Mapping[str, Any] | None = None) -> Evaluator:
        points: dict[str, Any] = {"multiPoint": {"enabled": [{"name": plugin.name}]}}
        if issubclass(plugin, QueueSortPlugin):
            points["multiPoint"]["disabled"] = [{"name": "PrioritySort"}]
        enabled = {"plugins": points}
        given = {} if args is None else {"pluginConfig": [{"name": plugin.name, "args": dict(args)}]}
        tree = configuration(enabled | given)
        registry = full_registry({plugin.name: plugin})
        return Evaluator(objects, config=load_configuration(tree, registry), registry=registry)

    return make


@pytest.fixture
def kuberth_scheduler() -> Callable[..., None]:
    """Runs a scheduler in virtual time: `(scenario, *objects, **options)`.

    `scenario` is a coroutine function that gets the `World`; the options are those of `running`.
    """
    from kuberth.clock import run_in_virtual_time
    from kuberth.testing.harness import running

    def play(scenario: Callable[[World], Awaitable[None]], *objects: Any, **options: Any) -> None:
        async def run() -> None:
            async with running(*objects, **options) as world:
                await scenario(world)

        run_in_virtual_time(run)

    return play


@pytest.fixture
def kuberth_contract() -> Callable[..., None]:
    """Fails if a plugin breaks a rule of the contract: `assert_keeps_contract`."""
    from kuberth.testing.plugin_contract import assert_keeps_contract

    return assert_keeps_contract
