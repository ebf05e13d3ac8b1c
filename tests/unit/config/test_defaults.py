"""The expectations are Kubernetes 1.36's, written down by hand from its sources."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kuberth.config import FeatureGates, apply_defaults, default_configuration, load
from kuberth.config.defaults import merge_plugin_set
from kuberth.config.feature_gates import parse_settings
from kuberth.config.in_tree import IN_TREE_POINTS
from kuberth.config.plugin_args import (
    DynamicResourcesArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from kuberth.config.types import PluginRef, PluginSet
from tests.unit.config.harness import document, one_profile, with_args

DEFAULT_PLUGINS = [
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
]


def multi_point(gates: str = "") -> list[tuple[str, int]]:
    config = default_configuration(FeatureGates(parse_settings(gates)))
    return [(ref.name, ref.weight or 0) for ref in config.profiles[0].plugins.multi_point.enabled]


def args_of(name: str, tree: Any) -> Any:
    return next(entry.args for entry in load(tree).profiles[0].plugin_config if entry.name == name)


def test_settings() -> None:
    config = load(document())
    assert config.parallelism == 16
    assert config.percentage_of_nodes_to_score == 0
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (1, 10)
    assert (config.enable_profiling, config.enable_contention_profiling) == (True, True)
    assert config.extenders == ()
    assert not config.delay_cache_until_active
    election = config.leader_election
    assert election.leader_elect
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == (
        timedelta(seconds=15),
        timedelta(seconds=10),
        timedelta(seconds=2),
    )
    assert (election.resource_lock, election.resource_namespace, election.resource_name) == (
        "leases",
        "kube-system",
        "kube-scheduler",
    )
    client = config.client_connection
    assert (client.qps, client.burst) == (50.0, 100)
    assert client.content_type == "application/vnd.kubernetes.protobuf"
    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]
    assert config == default_configuration()


def test_an_explicit_zero_means_the_default_where_kubernetes_says_so() -> None:
    given = load(
        document(
            leaderElection={
                "leaseDuration": "0s",
                "retryPeriod": "0s",
                "resourceName": "",
                "resourceLock": "",
            },
            clientConnection={"qps": 0, "burst": 0, "contentType": ""},
            extenders=[{"urlPrefix": "http://x", "httpTimeout": "0s"}],
        )
    )
    default = default_configuration()
    assert given.leader_election == default.leader_election
    assert given.client_connection == default.client_connection
    assert given.extenders[0].http_timeout == timedelta(seconds=5)


@pytest.mark.parametrize(
    "fields, contention",
    [
        pytest.param({"enableProfiling": False}, False, id="follows-profiling"),
        pytest.param({"enableProfiling": False, "enableContentionProfiling": True}, True, id="explicit"),
        pytest.param({"enableContentionProfiling": False}, False, id="off"),
    ],
)
def test_contention_profiling(fields: dict[str, Any], contention: bool) -> None:
    assert load(document(**fields)).enable_contention_profiling is contention


def test_default_plugins_in_order() -> None:
    assert multi_point() == DEFAULT_PLUGINS


@pytest.mark.parametrize(
    "gates, removed, added",
    [
        pytest.param("DynamicResourceAllocation=false", ["DynamicResources"], [], id="without-dra"),
        pytest.param(
            "NodeDeclaredFeatures=false", ["NodeDeclaredFeatures"], [], id="without-declared-features"
        ),
        pytest.param("PodSchedulingReadiness=false", ["SchedulingGates"], [], id="without-readiness"),
        pytest.param(
            "GenericWorkload=true,GangScheduling=true", [], [("GangScheduling", 0)], id="with-gang-scheduling"
        ),
        pytest.param(
            "GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
            [],
            [("TopologyPlacementGenerator", 0), ("PodGroupPodsCount", 1)],
            id="with-topology-aware-workloads",
        ),
    ],
)
def test_feature_gates_shape_the_default_plugins(
    gates: str, removed: list[str], added: list[tuple[str, int]]
) -> None:
    assert multi_point(gates) == [pair for pair in DEFAULT_PLUGINS if pair[0] not in removed] + added


def test_plugin_config_is_there_for_every_plugin_with_args_by_name() -> None:
    assert [entry.name for entry in default_configuration().profiles[0].plugin_config] == [
        "DefaultPreemption",
        "DynamicResources",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "PodTopologySpread",
        "VolumeBinding",
    ]


def test_given_plugin_config_stays_in_front_and_a_disabled_plugin_gets_none() -> None:
    config = load(
        one_profile(
            plugins={"multiPoint": {"disabled": [{"name": "VolumeBinding"}]}},
            pluginConfig=[{"name": "PodTopologySpread"}, {"name": "InterPodAffinity"}],
        )
    )
    assert [entry.name for entry in config.profiles[0].plugin_config] == [
        "PodTopologySpread",
        "InterPodAffinity",
        "DefaultPreemption",
        "DynamicResources",
        "NodeAffinity",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
    ]


CPU, MEMORY = ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1)


@pytest.mark.parametrize(
    "name, args, expected",
    [
        pytest.param(
            "NodeResourcesFit",
            None,
            NodeResourcesFitArgs(
                scoring_strategy=ScoringStrategy(type="LeastAllocated", resources=(CPU, MEMORY))
            ),
            id="fit",
        ),
        pytest.param(
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "MostAllocated"}},
            NodeResourcesFitArgs(
                scoring_strategy=ScoringStrategy(type="MostAllocated", resources=(CPU, MEMORY))
            ),
            id="fit-without-resources",
        ),
        pytest.param(
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "gpu", "weight": 0}]}},
            NodeResourcesFitArgs(
                scoring_strategy=ScoringStrategy(
                    type="MostAllocated", resources=(ResourceSpec(name="gpu", weight=1),)
                )
            ),
            id="fit-without-weight",
        ),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            {"resources": []},
            NodeResourcesBalancedAllocationArgs(resources=(CPU, MEMORY)),
            id="balanced",
        ),
        pytest.param("VolumeBinding", {}, VolumeBindingArgs(bind_timeout_seconds=600), id="volume-binding"),
        pytest.param(
            "DynamicResources",
            {},
            DynamicResourcesArgs(filter_timeout=timedelta(seconds=10), binding_timeout=timedelta(minutes=10)),
            id="dynamic-resources",
        ),
    ],
)
def test_args(name: str, args: Any, expected: Any) -> None:
    assert args_of(name, with_args(name, args)) == expected


def test_args_behind_feature_gates() -> None:
    shaped = with_args("VolumeBinding", {}, featureGates={"StorageCapacityScoring": True})
    assert args_of("VolumeBinding", shaped).shape == (
        UtilizationShapePoint(utilization=0, score=10),
        UtilizationShapePoint(utilization=100, score=0),
    )
    gates = {"DRASchedulerFilterTimeout": False, "DRADeviceBindingConditions": False}
    assert args_of("DynamicResources", document(featureGates=gates)) == DynamicResourcesArgs()


def refs(*names: str | tuple[str, int]) -> tuple[PluginRef, ...]:
    return tuple(
        PluginRef(name=one) if isinstance(one, str) else PluginRef(name=one[0], weight=one[1])
        for one in names
    )


@pytest.mark.parametrize(
    "custom, expected",
    [
        pytest.param(PluginSet(), refs("A", ("B", 2), "C"), id="nothing"),
        pytest.param(PluginSet(enabled=refs("X")), refs("A", ("B", 2), "C", "X"), id="added-behind"),
        pytest.param(PluginSet(disabled=refs("B")), refs("A", "C"), id="disabled"),
        pytest.param(PluginSet(disabled=refs("*"), enabled=refs("C", "X")), refs("C", "X"), id="only-these"),
        pytest.param(
            PluginSet(enabled=refs("X", ("B", 9))),
            refs("A", ("B", 9), "C", "X"),
            id="weight-changed-in-place",
        ),
        pytest.param(
            PluginSet(disabled=refs("B"), enabled=refs(("B", 9))),
            refs("A", "C", ("B", 9)),
            id="moved-to-the-end",
        ),
        pytest.param(
            PluginSet(enabled=refs(("A", 1), ("A", 2))),
            refs(("A", 2), ("B", 2), "C", ("A", 1)),
            id="twice-stays-twice",
        ),
    ],
)
def test_merging_with_the_default_set(custom: PluginSet, expected: tuple[PluginRef, ...]) -> None:
    merged = merge_plugin_set(custom, PluginSet(enabled=refs("A", ("B", 2), "C")))
    assert merged == PluginSet(enabled=expected, disabled=custom.disabled)


def test_defaulting_twice_changes_nothing() -> None:
    once = load(
        one_profile(plugins={"multiPoint": {"disabled": [{"name": "NodeName"}], "enabled": [{"name": "X"}]}})
    )
    assert apply_defaults(once) == once


@pytest.mark.parametrize(
    "name, points",
    [
        ("DynamicResources", "preEnqueue preFilter filter postFilter score reserve preBind"),
        ("VolumeBinding", "preFilter filter reserve preBind preScore score"),
        ("TaintToleration", "filter preScore score"),
        ("DefaultPreemption", "preEnqueue postFilter"),
        ("InterPodAffinity", "preFilter filter preScore score"),
        ("GangScheduling", "preEnqueue permit"),
    ],
)
def test_extension_points_of_in_tree_plugins(name: str, points: str) -> None:
    assert set(IN_TREE_POINTS[name]) == set(points.split())
