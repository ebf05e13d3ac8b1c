from __future__ import annotations

from typing import Any

import pytest

from kuberth.assembly.profiles import assemble, effective_gates, full_registry
from kuberth.assembly.scheduler import Scheduler
from kuberth.config import FeatureGates, KubeSchedulerConfiguration, load
from kuberth.errors import ConfigError
from kuberth.framework import FilterPlugin, Handle, Plugin, QueueSortPlugin, Registry
from kuberth.plugins import IN_TREE
from kuberth.testing import MemoryApi
from tests.unit.framework.harness import ApiBinder, Arrival, make_handle, plugin, profile_config

OTHER_SORT = plugin("OtherSort", QueueSortPlugin, less=False)


def registry_of(*plugins: type[Plugin]) -> Registry:
    return Registry({each.name: each for each in plugins})


def test_a_runner_per_profile_in_the_configurations_order() -> None:
    config = KubeSchedulerConfiguration(
        profiles=(
            profile_config(("Arrival", "ApiBinder"), scheduler="b"),
            profile_config(("Arrival", "ApiBinder"), scheduler="a"),
        )
    )
    handle = make_handle()
    runners = assemble(
        config, registry=registry_of(Arrival, ApiBinder), handle=handle, metrics=handle.metrics
    )
    assert list(runners) == ["b", "a"]
    assert [runner.profile.scheduler_name for runner in runners.values()] == ["b", "a"]


def test_every_profile_has_plugins_and_a_handle_of_its_own() -> None:
    handles: list[Handle] = []
    made = plugin("F", FilterPlugin, filter=None, __init__=lambda _args, handle: handles.append(handle))
    names = ("F", "Arrival", "ApiBinder")
    config = KubeSchedulerConfiguration(
        profiles=tuple(profile_config(names, scheduler=scheduler) for scheduler in "ab")
    )
    shared = make_handle()
    runners = assemble(
        config, registry=registry_of(made, Arrival, ApiBinder), handle=shared, metrics=shared.metrics
    )
    assert [handle.profile_name for handle in handles] == ["a", "b"]
    assert [handle.runner for handle in handles] == [runners["a"], runners["b"]]
    assert runners["a"].profile.plugins["F"] is not runners["b"].profile.plugins["F"]
    assert all(handle.cluster is shared.cluster for handle in handles)
    assert (shared.profile_name, shared.runner) == ("", None)


def test_the_registry_holds_kuberths_plugins_and_the_callers() -> None:
    registry = full_registry({"Arrival": Arrival}, entry_points=False)
    assert registry.names() == (*(each.name for each in IN_TREE), "Arrival")


def test_a_plugin_of_ones_own_cannot_take_a_name_of_kuberths() -> None:
    with pytest.raises(ConfigError, match="two plugins are called 'NodeName', from kuberth and from code"):
        full_registry({"NodeName": Arrival}, entry_points=False)


@pytest.mark.parametrize(
    "in_file, beside, enabled",
    [
        pytest.param({}, None, True, id="default"),
        pytest.param({"SchedulerQueueingHints": False}, None, False, id="the-file-decides"),
        pytest.param({}, {"SchedulerQueueingHints": False}, False, id="what-is-given-beside-it-decides"),
        pytest.param(
            {"SchedulerQueueingHints": False}, {"SchedulerQueueingHints": True}, True, id="even-over-the-file"
        ),
        pytest.param(
            {"SchedulerQueueingHints": False}, {"SchedulerPopFromBackoffQ": False}, False, id="gate-by-gate"
        ),
    ],
)
def test_gates(in_file: dict[str, bool], beside: dict[str, bool] | None, enabled: bool) -> None:
    config = KubeSchedulerConfiguration(feature_gates=in_file)
    gates = effective_gates(config, None if beside is None else FeatureGates(beside))
    assert gates.enabled("SchedulerQueueingHints") is enabled


# One queue, so one order


def two_profiles(second: dict[str, Any]) -> KubeSchedulerConfiguration:
    return load(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "a"}, {"schedulerName": "b", **second}],
        },
        known_plugins=[*(each.name for each in IN_TREE), "OtherSort"],
    )


def test_profiles_that_sort_alike() -> None:
    scheduler = Scheduler(MemoryApi(), config=two_profiles({}))
    assert list(scheduler.runners) == ["a", "b"]


def test_profiles_that_sort_differently() -> None:
    config = KubeSchedulerConfiguration(
        profiles=(
            profile_config(("Arrival", "ApiBinder"), scheduler="a"),
            profile_config(("OtherSort", "ApiBinder"), scheduler="b"),
        )
    )
    with pytest.raises(
        ConfigError,
        match="all profiles must use the same queue sort plugin, but there are: Arrival, OtherSort",
    ):
        Scheduler(MemoryApi(), config=config, registry=registry_of(Arrival, OTHER_SORT, ApiBinder))


@pytest.mark.parametrize("factory", [lambda _context: None, lambda _context: 5], ids=["nothing", "a-number"])
def test_a_queue_factory_that_makes_no_queue(factory: Any) -> None:
    with pytest.raises(ConfigError, match=r"the queue factory .* returned"):
        Scheduler(MemoryApi(), queue=factory)
