"""Authors learn of registrations that no change of the cluster ever matches."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kuberth.assembly.scheduler import Scheduler
from kuberth.config import FeatureGates, default_configuration
from kuberth.framework import (
    Action,
    ClusterEvent,
    EnqueueExtensions,
    EventWithHint,
    FilterPlugin,
    Resource,
    ScorePlugin,
)
from kuberth.framework.cluster_events import unheard
from kuberth.testing import MemoryApi, profile, run_in_virtual_time
from tests.unit.framework.harness import framework, plugin


@pytest.mark.parametrize(
    "resource, action",
    [
        (Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_LABEL),
        (Resource.UNSCHEDULABLE_POD, Action.UPDATE),
        (Resource.ASSIGNED_POD, Action.ALL),
        (Resource.POD, Action.ADD | Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
        (Resource.NODE, Action.ALL),
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        (Resource.RESOURCE_CLAIM, Action.ADD | Action.UPDATE),
        ("widgets.v1.example.com", Action.DELETE),
        (Resource.ANY, Action.ALL),
    ],
)
def test_events_that_may_come(resource: str, action: Action) -> None:
    assert list(unheard(ClusterEvent(resource, action), gangs=False)) == []


@pytest.mark.parametrize(
    "resource, action, problem",
    [
        (Resource.UNSCHEDULABLE_POD, Action.ADD, "UnschedulablePod Add never comes; pods that come or go"),
        (Resource.UNSCHEDULABLE_POD, Action.ALL, "UnschedulablePod Add, Delete never comes"),
        (Resource.NODE, Action.UPDATE_POD_LABEL, "Node UpdatePodLabel never comes; a node has no such"),
        (Resource.POD, Action.UPDATE_NODE_TAINT, "Pod UpdateNodeTaint never comes; a pod has no such"),
        (
            Resource.ASSIGNED_POD,
            Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
            "AssignedPod UpdatePodSchedulingGatesEliminated never comes; only pending pods",
        ),
        (
            Resource.PERSISTENT_VOLUME,
            Action.ADD | Action.UPDATE_NODE_LABEL,
            "PersistentVolume UpdateNodeLabel never comes; updates of this kind are not distinguished: use",
        ),
    ],
)
def test_events_that_never_come(resource: str, action: Action, problem: str) -> None:
    (found,) = unheard(ClusterEvent(resource, action), gangs=False)
    assert found.startswith(problem)


def test_with_gangs_new_pending_pods_are_events() -> None:
    assert not list(unheard(ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.ADD), gangs=True))


def registering(*bases: type[Any], event: ClusterEvent, **methods: Any) -> Any:
    return plugin("P", *bases, EnqueueExtensions, events_to_register=[EventWithHint(event)], **methods)


def test_a_profile_warns_of_them() -> None:
    event = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.ADD)
    (warning,) = framework(registering(FilterPlugin, event=event, filter=None)).profile.warnings
    assert warning.startswith("plugin 'P' registers an event that never comes: UnschedulablePod Add")


def test_a_profile_warns_of_events_of_a_plugin_that_rejects_no_pod() -> None:
    event = ClusterEvent(Resource.NODE, Action.ADD)
    (warning,) = framework(registering(ScorePlugin, event=event, score=0)).profile.warnings
    assert "serves no extension point that rejects pods" in warning


@pytest.mark.parametrize("gates", [{}, {"GangScheduling": True, "GenericWorkload": True}], ids=str)
def test_in_tree_plugins_register_only_what_comes(gates: dict[str, bool]) -> None:
    enabled = FeatureGates(gates)
    scheduler = Scheduler(MemoryApi(), config=default_configuration(enabled), feature_gates=enabled)
    assert [runner.profile.warnings for runner in scheduler.runners.values()] == [()]


def test_the_scheduler_logs_them(caplog: pytest.LogCaptureFixture) -> None:
    from kuberth.config import load
    from kuberth.testing.harness import API_VERSION

    tree = {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": [profile("P")]}
    made = registering(FilterPlugin, event=ClusterEvent(Resource.NODE, Action.UPDATE_POD_LABEL), filter=None)

    async def scenario() -> None:
        scheduler = Scheduler(MemoryApi(), config=load(tree), plugins={"P": made})
        scheduler.stop()
        await scheduler.run()

    with caplog.at_level(logging.WARNING):
        run_in_virtual_time(scenario)
    assert "profile 'default-scheduler': plugin 'P' registers an event that never comes" in caplog.text
