"""One row a rule: each fails when its rule is taken away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from kuberth.config import default_configuration, validate
from kuberth.config.types import KubeSchedulerConfiguration, PluginRef, Plugins, PluginSet
from tests.unit.config.harness import document, errors_of, one_profile, with_args, with_plugins


def enabled(*plugins: str, **weights: int) -> dict[str, Any]:
    return {
        "enabled": [
            *({"name": name} for name in plugins),
            *({"name": name, "weight": weight} for name, weight in weights.items()),
        ]
    }


@pytest.mark.parametrize(
    "fields, error",
    [
        pytest.param({"parallelism": 0}, "parallelism: must be greater than 0, got 0", id="parallelism"),
        pytest.param(
            {"percentageOfNodesToScore": 101},
            "percentageOfNodesToScore: must be from 0 to 100, got 101",
            id="percentage-high",
        ),
        pytest.param(
            {"percentageOfNodesToScore": -1},
            "percentageOfNodesToScore: must be from 0 to 100, got -1",
            id="percentage-low",
        ),
        pytest.param(
            {"podInitialBackoffSeconds": 0},
            "podInitialBackoffSeconds: must be greater than 0, got 0",
            id="backoff",
        ),
        pytest.param(
            {"podInitialBackoffSeconds": 20},
            "podMaxBackoffSeconds: must be at least podInitialBackoffSeconds, which is 20, got 10",
            id="max-backoff",
        ),
        pytest.param(
            {"clientConnection": {"burst": -1}},
            "clientConnection.burst: must not be negative, got -1",
            id="burst",
        ),
        pytest.param(
            {"leaderElection": {"leaseDuration": "10s"}},
            "leaderElection.leaseDuration: must be greater than renewDeadline",
            id="lease-not-above-deadline",
        ),
        pytest.param(
            {"leaderElection": {"retryPeriod": "-1s"}},
            "leaderElection.retryPeriod: must be greater than 0s",
            id="retry",
        ),
        pytest.param(
            {"leaderElection": {"renewDeadline": "2.4s"}},
            "leaderElection.renewDeadline: must be greater than 1.2 x retryPeriod",
            id="deadline-not-above-retry",
        ),
        pytest.param(
            {"leaderElection": {"resourceLock": "endpoints"}},
            'leaderElection.resourceLock: must be "leases", got "endpoints"',
            id="resource-lock",
        ),
        pytest.param({"featureGates": {"Nope": True}}, "featureGates.Nope: unknown feature gate", id="gate"),
        pytest.param(
            {"featureGates": {"SidecarContainers": False}},
            "featureGates.SidecarContainers: cannot set feature gate SidecarContainers to false, "
            "feature is locked to true",
            id="locked-gate",
        ),
    ],
)
def test_settings(fields: dict[str, Any], error: str) -> None:
    assert errors_of(document(**fields)) == [error]


def test_leader_election_is_not_judged_when_it_is_off() -> None:
    election = {"leaderElect": False, "leaseDuration": "-1s", "resourceLock": "x"}
    assert errors_of(document(leaderElection=election)) == []


@pytest.mark.parametrize("name", ["lease_duration", "renew_deadline", "retry_period"])
def test_durations_must_be_positive(name: str) -> None:
    config = default_configuration()
    election = replace(config.leader_election, **{name: timedelta(0)})
    paths = [error.path for error in validate(replace(config, leader_election=election))]
    camel = {
        "lease_duration": "leaseDuration",
        "renew_deadline": "renewDeadline",
        "retry_period": "retryPeriod",
    }
    assert f"leaderElection.{camel[name]}" in paths


@pytest.mark.parametrize("name", ["resource_name", "resource_namespace"])
def test_lease_must_be_named(name: str) -> None:
    config = default_configuration()
    election = replace(config.leader_election, **{name: ""})
    assert [error.message for error in validate(replace(config, leader_election=election))] == [
        "must not be empty"
    ]


def test_a_configuration_without_profiles() -> None:
    errors = validate(KubeSchedulerConfiguration())
    assert [str(error) for error in errors] == ["profiles: at least one profile is required"]


@pytest.mark.parametrize(
    "tree, errors",
    [
        pytest.param(
            document(profiles=[{"schedulerName": "a"}, {}]),
            ["profiles[1].schedulerName: required when there is more than one profile"],
            id="name-missing",
        ),
        pytest.param(
            document(profiles=[{"schedulerName": "a"}, {"schedulerName": "b"}, {"schedulerName": "a"}]),
            ['profiles[2].schedulerName: "a" is the name of profiles[0] already'],
            id="name-twice",
        ),
        pytest.param(
            one_profile(schedulerName=""),
            ['profiles[0].schedulerName: expected `str` of length >= 1, got ""'],
            id="name-empty",
        ),
        pytest.param(
            one_profile(percentageOfNodesToScore=101),
            ["profiles[0].percentageOfNodesToScore: must be from 0 to 100, got 101"],
            id="percentage",
        ),
        pytest.param(
            with_plugins(filter=enabled("NodeNam")),
            [
                'profiles[0].plugins.filter.enabled[0].name: unknown plugin "NodeNam";'
                ' did you mean "NodeName"?'
            ],
            id="unknown-plugin",
        ),
        pytest.param(
            with_plugins(multiPoint=enabled("Foo")),
            [
                'profiles[0].plugins.multiPoint.enabled[0].name: unknown plugin "Foo";'
                " if it is your own, name it with --plugin module:Class"
            ],
            id="unknown-plugin-at-multi-point",
        ),
        pytest.param(
            with_plugins(filter={"disabled": [{"name": "Gone"}]}), [], id="disabling-the-unknown-is-fine"
        ),
        pytest.param(
            with_plugins(filter=enabled("*")),
            [
                'profiles[0].plugins.filter.enabled[0].name: "*" stands for all plugins only under disabled;'
                " name the plugin"
            ],
            id="star-enabled",
        ),
        pytest.param(
            with_plugins(filter=enabled("EBSLimits")),
            [
                'profiles[0].plugins.filter.enabled[0].name: plugin "EBSLimits" no longer exists;'
                " NodeVolumeLimits does its work"
            ],
            id="removed-plugin",
        ),
        pytest.param(
            with_plugins(score=enabled("DefaultBinder")),
            [
                'profiles[0].plugins.score.enabled[0].name: plugin "DefaultBinder" does not implement score,'
                " only bind"
            ],
            id="wrong-point",
        ),
        pytest.param(
            with_plugins(filter=enabled("NodeName", "NodePorts", "NodeName")),
            [
                'profiles[0].plugins.filter.enabled[2].name: plugin "NodeName" is enabled twice at filter;'
                " keep one"
            ],
            id="twice-at-a-point",
        ),
        pytest.param(
            with_plugins(multiPoint=enabled("NodeName", "NodeName")),
            [
                'profiles[0].plugins.multiPoint.enabled[1].name: plugin "NodeName" is enabled twice'
                " at multiPoint; keep one"
            ],
            id="twice-at-multi-point",
        ),
        pytest.param(
            with_plugins(multiPoint=enabled("NodeName"), filter=enabled("NodeName")),
            [],
            id="re-configuring-is-fine",
        ),
        pytest.param(
            with_plugins(filter=enabled(NodeName=3)),
            [
                "profiles[0].plugins.filter.enabled[0].weight: a weight has no effect at filter;"
                " remove it or give it under score"
            ],
            id="weight-without-score",
        ),
        pytest.param(
            with_plugins(multiPoint=enabled(NodeName=3)),
            [
                "profiles[0].plugins.multiPoint.enabled[0].weight: a weight has no effect:"
                ' plugin "NodeName" does not score; remove it'
            ],
            id="weight-of-a-plugin-that-does-not-score",
        ),
        pytest.param(
            with_plugins(score=enabled(ImageLocality=-1)),
            ["profiles[0].plugins.score.enabled[0].weight: must not be negative, got -1"],
            id="negative-weight",
        ),
        pytest.param(
            with_plugins(queueSort={"disabled": [{"name": "*"}]}),
            ["profiles[0].plugins.queueSort: one queue sort plugin is needed; enable PrioritySort"],
            id="no-queue-sort",
        ),
        pytest.param(
            with_plugins(bind={"disabled": [{"name": "*"}]}),
            ["profiles[0].plugins.bind: at least one bind plugin is needed; enable DefaultBinder"],
            id="no-bind",
        ),
        pytest.param(
            one_profile(pluginConfig=[{"name": "NodeAffinity"}, {"name": "NodeAffinity"}]),
            ['profiles[0].pluginConfig[1].name: plugin "NodeAffinity" is configured twice; keep one'],
            id="configured-twice",
        ),
        pytest.param(
            one_profile(pluginConfig=[{"name": "NodeAfinity"}]),
            ['profiles[0].pluginConfig[0].name: unknown plugin "NodeAfinity"; did you mean "NodeAffinity"?'],
            id="configured-but-unknown",
        ),
        pytest.param(
            one_profile(pluginConfig=[{"name": "CinderLimits"}]),
            [
                'profiles[0].pluginConfig[0].name: plugin "CinderLimits" no longer exists;'
                " NodeVolumeLimits does its work"
            ],
            id="configured-but-removed",
        ),
    ],
)
def test_profiles(tree: Any, errors: list[str]) -> None:
    assert errors_of(tree) == errors


OWN_POINTS = {"Own": ("QueueSort",), "Place": ("PlacementGenerate",), "Place2": ("PlacementGenerate",)}
OWN = {"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "Own"}]}}


@pytest.mark.parametrize(
    "profiles, errors",
    [
        pytest.param(
            [{"plugins": {"queueSort": enabled("Own")}}],
            [
                "profiles[0].plugins.queueSort: only one queue sort plugin can be enabled,"
                " not PrioritySort, Own; disable the others"
            ],
            id="two-queue-sorts",
        ),
        pytest.param(
            [{"schedulerName": "a", "plugins": OWN}, {"schedulerName": "b"}],
            [
                "profiles[1].plugins.queueSort: must be the same in all profiles:"
                " profiles[0] has Own, this has PrioritySort"
            ],
            id="different-queue-sorts",
        ),
        pytest.param(
            [{"schedulerName": "a", "plugins": OWN}, {"schedulerName": "b", "plugins": OWN}],
            [],
            id="same-queue-sort",
        ),
        pytest.param(
            [
                {"schedulerName": "a", "plugins": OWN, "pluginConfig": [{"name": "Own", "args": {"k": 1}}]},
                {"schedulerName": "b", "plugins": OWN, "pluginConfig": [{"name": "Own", "args": {"k": 2}}]},
            ],
            [
                "profiles[1].pluginConfig: the args of Own, which sorts the queue,"
                " must be the same in all profiles"
            ],
            id="different-queue-sort-args",
        ),
        pytest.param(
            [{"plugins": {"multiPoint": enabled("Place", "Place2")}}],
            [
                "profiles[0].plugins.placementGenerate: only one plugin can generate placements,"
                " not Place, Place2"
            ],
            id="two-placement-generators",
        ),
    ],
)
def test_own_plugins(profiles: list[Any], errors: list[str]) -> None:
    assert errors_of(document(profiles=profiles), extension_points=OWN_POINTS) == errors


def test_an_undescribed_plugin_may_be_the_missing_one() -> None:
    tree = with_plugins(multiPoint=[{"name": "Mystery"}])
    assert errors_of(tree, known_plugins=["Mystery"]) == []


def test_total_score_must_fit_64_bits() -> None:
    config = default_configuration()
    names = ("PrioritySort", "DefaultBinder", "ImageLocality")
    weights = (0, 0, 2**57)
    refs = tuple(PluginRef(name=name, weight=weight) for name, weight in zip(names, weights, strict=True))
    heavy = Plugins(multi_point=PluginSet(enabled=refs))
    profile = replace(config.profiles[0], plugins=heavy, plugin_config=())
    assert [error.path for error in validate(replace(config, profiles=(profile,)))] == [
        "profiles[0].plugins.score"
    ]


class OwnArgs(Struct, frozen=True, kw_only=True):
    color: str
    number: int = 7


@pytest.mark.parametrize(
    "profile, errors",
    [
        pytest.param(
            {"plugins": {"filter": enabled("Own")}},
            ['profiles[0].pluginConfig: plugin "Own" is enabled but needs args: color'],
            id="required-args-missing",
        ),
        pytest.param(
            {"pluginConfig": [{"name": "Own", "args": {"color": 3, "nmber": 1}}]},
            [
                'profiles[0].pluginConfig[0].args.nmber: unknown field; did you mean "number"?',
                "profiles[0].pluginConfig[0].args.color: expected a string, got 3",
            ],
            id="args-of-the-wrong-shape",
        ),
        pytest.param(
            {"pluginConfig": [{"name": "Own", "args": {"color": "x", "kind": "K"}}]}, [], id="right"
        ),
    ],
)
def test_typed_args_of_own_plugins(profile: Any, errors: list[str]) -> None:
    found = errors_of(
        document(profiles=[profile]), extension_points={"Own": ("filter",)}, args_types={"Own": OwnArgs}
    )
    assert found == errors


def test_args_built_in_python_must_have_the_plugins_type() -> None:
    config = default_configuration()
    first, *rest = config.profiles[0].plugin_config
    profile = replace(config.profiles[0], plugin_config=(replace(first, args={"x": 1}), *rest))
    assert [str(error) for error in validate(replace(config, profiles=(profile,)))] == [
        "profiles[0].pluginConfig[0].args: expected DefaultPreemptionArgs, got dict"
    ]


@pytest.mark.parametrize(
    "extenders, errors",
    [
        pytest.param(
            [{"urlPrefix": "http://x", "prioritizeVerb": "p"}],
            ["extenders[0].weight: must be greater than 0 when there is a prioritizeVerb, got 0"],
            id="weight",
        ),
        pytest.param(
            [{"urlPrefix": "http://x", "bindVerb": "b"}, {"urlPrefix": "http://y", "bindVerb": "b"}],
            ["extenders: only one extender can bind, but extenders 0, 1 have a bindVerb"],
            id="two-binders",
        ),
        pytest.param(
            [{"urlPrefix": "http://x", "managedResources": [{"name": "cpu"}]}],
            [
                "extenders[0].managedResources[0].name: must be an extended resource such as"
                ' "example.com/gpu", outside kubernetes.io, got "cpu"'
            ],
            id="native-resource",
        ),
        pytest.param(
            [{"urlPrefix": "http://x", "managedResources": [{"name": "example.com/a b"}]}],
            [
                "extenders[0].managedResources[0].name: must be at most 63 letters, digits, '-', '_' and '.',"
                " with a letter or digit at both ends, and may have a lower-case DNS name and a slash"
                ' in front, got "example.com/a b"'
            ],
            id="no-name",
        ),
        pytest.param(
            [
                {"urlPrefix": "http://x", "managedResources": [{"name": "example.com/a"}]},
                {"urlPrefix": "http://y", "managedResources": [{"name": "example.com/a"}]},
            ],
            ['extenders[1].managedResources[0].name: "example.com/a" is managed by an extender already'],
            id="managed-twice",
        ),
        pytest.param([{}], ["extenders[0].urlPrefix: required, but missing"], id="no-url"),
        pytest.param(
            [{"urlPrefix": "http://x", "httpTimeout": "-1s"}],
            ["extenders[0].httpTimeout: must not be negative"],
            id="timeout",
        ),
    ],
)
def test_extenders(extenders: list[Any], errors: list[str]) -> None:
    assert errors_of(document(extenders=extenders)) == errors


@pytest.mark.parametrize("ignored", [True, False])
def test_an_ignored_resource_needs_the_plugin_that_ignores_it(ignored: bool) -> None:
    resource = {"name": "example.com/a", "ignoredByScheduler": ignored}
    tree = document(
        extenders=[{"urlPrefix": "http://x", "managedResources": [resource]}],
        profiles=[
            {"schedulerName": "with"},
            {
                "schedulerName": "without",
                "plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}},
            },
        ],
    )
    expected = (
        "profiles[1].plugins: an extender has NodeResourcesFit ignore a resource, but this profile has no "
        "such plugin; enable it, or remove ignoredByScheduler"
    )
    assert errors_of(tree) == ([expected] if ignored else [])


@pytest.mark.parametrize("name", ["kubernetes.io/x", "requests.example.com/x", "a" * 250 + ".com/x", "x"])
def test_what_is_no_extended_resource(name: str) -> None:
    extenders = [{"urlPrefix": "http://x", "managedResources": [{"name": name}]}]
    assert len(errors_of(document(extenders=extenders))) == 1


def shape(*points: tuple[int, int]) -> list[dict[str, int]]:
    return [{"utilization": utilization, "score": score} for utilization, score in points]


def ratio(*points: tuple[int, int]) -> dict[str, Any]:
    strategy = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape(*points)}}
    return {"scoringStrategy": strategy}


def spread(**fields: Any) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **fields}
    return {"defaultingType": "List", "defaultConstraints": [constraint]}


def term(**expression: Any) -> dict[str, Any]:
    return {"matchExpressions": [expression]}


def required(*terms: Any) -> dict[str, Any]:
    return {
        "addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    }


@pytest.mark.parametrize(
    "name, args, paths",
    [
        pytest.param(
            "DefaultPreemption", {"minCandidateNodesPercentage": 101}, ["minCandidateNodesPercentage"], id="p"
        ),
        pytest.param(
            "DefaultPreemption", {"minCandidateNodesAbsolute": -1}, ["minCandidateNodesAbsolute"], id="a"
        ),
        pytest.param(
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            ["minCandidateNodesPercentage", "minCandidateNodesAbsolute"],
            id="both-zero",
        ),
        pytest.param(
            "InterPodAffinity", {"hardPodAffinityWeight": 101}, ["hardPodAffinityWeight"], id="hard-high"
        ),
        pytest.param(
            "InterPodAffinity", {"hardPodAffinityWeight": -1}, ["hardPodAffinityWeight"], id="hard-low"
        ),
        pytest.param(
            "NodeAffinity",
            required(term(key="a", operator="Exists"), term(key="b", operator="Is")),
            [
                "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
                ".nodeSelectorTerms[1].matchExpressions[0].operator"
            ],
            id="required-affinity",
        ),
        pytest.param(
            "NodeAffinity",
            {
                "addedAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": term(key="a", operator="In")}
                    ]
                }
            },
            [
                "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
                ".preference.matchExpressions[0]"
            ],
            id="preferred-affinity",
        ),
        pytest.param("NodeAffinity", required(term(key="a", operator="Exists")), [], id="right-affinity"),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu"}, {"name": "cpu"}]},
            ["resources[1].name"],
            id="balanced-twice",
        ),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}]},
            ["resources[0].weight"],
            id="balanced-weight",
        ),
        pytest.param(
            "NodeResourcesFit", {"ignoredResources": ["a b"]}, ["ignoredResources[0]"], id="ignored"
        ),
        pytest.param(
            "NodeResourcesFit",
            {"ignoredResourceGroups": ["a/b"]},
            ["ignoredResourceGroups[0]"],
            id="group-slash",
        ),
        pytest.param(
            "NodeResourcesFit",
            {"ignoredResourceGroups": ["a b"]},
            ["ignoredResourceGroups[0]"],
            id="group-name",
        ),
        pytest.param(
            "NodeResourcesFit", {"scoringStrategy": {}}, ["scoringStrategy.type"], id="no-strategy-type"
        ),
        pytest.param(
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "Most"}},
            ["scoringStrategy.type"],
            id="strategy-type",
        ),
        pytest.param(
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "a", "weight": 101}]}},
            ["scoringStrategy.resources[0].weight"],
            id="strategy-weight-high",
        ),
        pytest.param(
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "a", "weight": -1}]}},
            ["scoringStrategy.resources[0].weight"],
            id="strategy-weight-low",
        ),
        pytest.param(
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            ["scoringStrategy.requestedToCapacityRatio"],
            id="ratio-missing",
        ),
        pytest.param(
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "MostAllocated", "requestedToCapacityRatio": {}}},
            ["scoringStrategy.requestedToCapacityRatio"],
            id="ratio-without-its-type",
        ),
        pytest.param(
            "NodeResourcesFit", ratio(), ["scoringStrategy.requestedToCapacityRatio.shape"], id="shape-empty"
        ),
        pytest.param(
            "NodeResourcesFit",
            ratio((10, 1), (10, 2)),
            ["scoringStrategy.requestedToCapacityRatio.shape[1].utilization"],
            id="shape-not-increasing",
        ),
        pytest.param(
            "NodeResourcesFit",
            ratio((0, 0), (101, 10)),
            ["scoringStrategy.requestedToCapacityRatio.shape[1].utilization"],
            id="shape-utilization",
        ),
        pytest.param(
            "NodeResourcesFit",
            ratio((0, 11)),
            ["scoringStrategy.requestedToCapacityRatio.shape[0].score"],
            id="shape-score",
        ),
        pytest.param(
            "PodTopologySpread", {"defaultingType": "Some"}, ["defaultingType"], id="defaulting-type"
        ),
        pytest.param(
            "PodTopologySpread",
            {**spread(), "defaultingType": "System"},
            ["defaultingType"],
            id="system-with-list",
        ),
        pytest.param(
            "PodTopologySpread", spread(maxSkew=0), ["defaultConstraints[0].maxSkew"], id="max-skew"
        ),
        pytest.param(
            "PodTopologySpread", spread(topologyKey=""), ["defaultConstraints[0].topologyKey"], id="no-key"
        ),
        pytest.param(
            "PodTopologySpread", spread(topologyKey="a b"), ["defaultConstraints[0].topologyKey"], id="key"
        ),
        pytest.param(
            "PodTopologySpread",
            spread(whenUnsatisfiable=""),
            ["defaultConstraints[0].whenUnsatisfiable"],
            id="no-action",
        ),
        pytest.param(
            "PodTopologySpread",
            spread(whenUnsatisfiable="Maybe"),
            ["defaultConstraints[0].whenUnsatisfiable"],
            id="action",
        ),
        pytest.param(
            "PodTopologySpread",
            spread(labelSelector={}),
            ["defaultConstraints[0].labelSelector"],
            id="selector",
        ),
        pytest.param(
            "PodTopologySpread",
            {"defaultingType": "List", "defaultConstraints": spread()["defaultConstraints"] * 2},
            ["defaultConstraints[1]"],
            id="constraint-twice",
        ),
        pytest.param("PodTopologySpread", spread(), [], id="right-spread"),
        pytest.param("VolumeBinding", {"bindTimeoutSeconds": -1}, ["bindTimeoutSeconds"], id="bind-timeout"),
        pytest.param("VolumeBinding", {"shape": shape((0, 0))}, ["shape"], id="shape-without-gate"),
        pytest.param("DynamicResources", {"filterTimeout": "-1s"}, ["filterTimeout"], id="filter-timeout"),
        pytest.param(
            "DynamicResources", {"bindingTimeout": "999ms"}, ["bindingTimeout"], id="binding-timeout"
        ),
    ],
)
def test_args(name: str, args: Any, paths: list[str]) -> None:
    found = [line.partition(": ")[0] for line in errors_of(with_args(name, args))]
    assert found == [f"profiles[0].pluginConfig[0].args.{path}" for path in paths]


@pytest.mark.parametrize(
    "name, args, gates, paths",
    [
        pytest.param(
            "VolumeBinding",
            {"shape": shape((0, 11))},
            {"StorageCapacityScoring": True},
            ["shape[0].score"],
            id="shape",
        ),
        pytest.param(
            "DynamicResources",
            {"filterTimeout": "1s"},
            {"DRASchedulerFilterTimeout": False},
            ["filterTimeout"],
            id="filter-timeout-without-gate",
        ),
        pytest.param(
            "DynamicResources",
            {"bindingTimeout": "1s"},
            {"DRADeviceBindingConditions": False},
            ["bindingTimeout"],
            id="binding-timeout-without-gate",
        ),
    ],
)
def test_args_behind_feature_gates(name: str, args: Any, gates: dict[str, bool], paths: list[str]) -> None:
    lines = errors_of(with_args(name, args), feature_gates=gates)
    assert [line.partition(": ")[0] for line in lines] == [
        f"profiles[0].pluginConfig[0].args.{path}" for path in paths
    ]


def test_all_problems_at_once() -> None:
    tree = document(
        paralelism=4,
        parallelism=-1,
        extenders=[{"urlPrefix": "x", "prioritizeVerb": "p"}],
        profiles=[{"plugins": {"filter": enabled("Foo"), "bind": {"disabled": [{"name": "*"}]}}}],
    )
    assert [line.partition(": ")[0] for line in errors_of(tree)] == [
        "paralelism",
        "parallelism",
        "profiles[0].plugins.filter.enabled[0].name",
        "profiles[0].plugins.bind",
        "extenders[0].weight",
    ]
