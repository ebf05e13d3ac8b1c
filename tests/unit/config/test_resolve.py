from __future__ import annotations

from typing import Any

import pytest

from kuberth.config import load, resolve_profile
from kuberth.config.in_tree import IN_TREE_POINTS
from kuberth.config.resolve import ResolvedProfile, plugins_named
from tests.unit.config.harness import document, one_profile

POINTS = {
    **IN_TREE_POINTS,
    "X": ("Filter", "Score", "EnqueueExtensions"),
    "Y": ("filter", "score"),
    "Z": ("bind",),
}


def resolve(**points: Any) -> ResolvedProfile:
    return resolve_profile(load(one_profile(plugins=points)).profiles[0], POINTS)


def names(*plugins: str) -> list[dict[str, str]]:
    return [{"name": plugin} for plugin in plugins]


def test_the_default_profile() -> None:
    resolved = resolve()
    assert resolved.scheduler_name == "default-scheduler"
    assert {point: list(plugins) for point, plugins in resolved.plugins.items() if plugins} == {
        "preEnqueue": ["SchedulingGates", "DynamicResources", "DefaultPreemption"],
        "queueSort": ["PrioritySort"],
        "preFilter": [
            "NodeAffinity",
            "NodePorts",
            "NodeResourcesFit",
            "VolumeRestrictions",
            "NodeVolumeLimits",
            "VolumeBinding",
            "VolumeZone",
            "PodTopologySpread",
            "InterPodAffinity",
            "DynamicResources",
            "NodeDeclaredFeatures",
        ],
        "filter": [
            "NodeUnschedulable",
            "NodeName",
            "TaintToleration",
            "NodeAffinity",
            "NodePorts",
            "NodeResourcesFit",
            "VolumeRestrictions",
            "NodeVolumeLimits",
            "VolumeBinding",
            "VolumeZone",
            "PodTopologySpread",
            "InterPodAffinity",
            "DynamicResources",
            "NodeDeclaredFeatures",
        ],
        "postFilter": ["DynamicResources", "DefaultPreemption"],
        "preScore": [
            "TaintToleration",
            "NodeAffinity",
            "NodeResourcesFit",
            "VolumeBinding",
            "PodTopologySpread",
            "InterPodAffinity",
            "NodeResourcesBalancedAllocation",
        ],
        "score": [
            "TaintToleration",
            "NodeAffinity",
            "NodeResourcesFit",
            "VolumeBinding",
            "PodTopologySpread",
            "InterPodAffinity",
            "DynamicResources",
            "NodeResourcesBalancedAllocation",
            "ImageLocality",
        ],
        "reserve": ["VolumeBinding", "DynamicResources"],
        "preBind": ["VolumeBinding", "DynamicResources"],
        "bind": ["DefaultBinder"],
        "placementScore": ["NodeResourcesFit"],
    }
    assert resolved.score_weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert resolved.placement_score_weights == {"NodeResourcesFit": 1}


@pytest.mark.parametrize(
    "plugins, point, expected",
    [
        pytest.param(
            {"postFilter": {"enabled": names("DefaultPreemption")}},
            "postFilter",
            ("DefaultPreemption", "DynamicResources"),
            id="named-at-the-point-comes-first",
        ),
        pytest.param(
            {"postFilter": {"enabled": names("DefaultPreemption", "DynamicResources")}},
            "postFilter",
            ("DefaultPreemption", "DynamicResources"),
            id="in-the-points-order",
        ),
        pytest.param(
            {"score": {"enabled": names("X", "ImageLocality", "NodeAffinity")}},
            "score",
            (
                *("ImageLocality", "NodeAffinity", "TaintToleration", "NodeResourcesFit", "VolumeBinding"),
                *("PodTopologySpread", "InterPodAffinity", "DynamicResources"),
                *("NodeResourcesBalancedAllocation", "X"),
            ),
            id="re-configured-then-multi-point-then-others",
        ),
        pytest.param(
            {
                "score": {
                    "disabled": names("NodeResourcesFit", "TaintToleration"),
                    "enabled": names("TaintToleration", "NodeResourcesFit"),
                }
            },
            "score",
            (
                *(
                    "NodeAffinity",
                    "VolumeBinding",
                    "PodTopologySpread",
                    "InterPodAffinity",
                    "DynamicResources",
                ),
                *("NodeResourcesBalancedAllocation", "ImageLocality", "TaintToleration", "NodeResourcesFit"),
            ),
            id="disabled-and-enabled-moves-to-the-end",
        ),
        pytest.param(
            {"score": {"disabled": names("*"), "enabled": names("ImageLocality", "NodeAffinity")}},
            "score",
            ("ImageLocality", "NodeAffinity"),
            id="star-skips-expansion",
        ),
        pytest.param({"postFilter": {"disabled": names("*")}}, "postFilter", (), id="star-alone"),
        pytest.param(
            {"postFilter": {"disabled": names("DynamicResources")}},
            "postFilter",
            ("DefaultPreemption",),
            id="one-disabled-at-the-point",
        ),
        pytest.param(
            {"postFilter": {"disabled": names("DynamicResources")}},
            "reserve",
            ("VolumeBinding", "DynamicResources"),
            id="still-there-at-others",
        ),
        pytest.param(
            {"multiPoint": {"disabled": names("DynamicResources")}},
            "postFilter",
            ("DefaultPreemption",),
            id="disabled-everywhere",
        ),
        pytest.param(
            {"multiPoint": {"enabled": names("Z")}}, "bind", ("DefaultBinder", "Z"), id="own-behind"
        ),
        pytest.param({"bind": names("Z")}, "bind", ("Z",), id="plain-list-means-exactly-these"),
        pytest.param(
            {"multiPoint": names("PrioritySort", "X", "DefaultBinder")},
            "filter",
            ("X",),
            id="plain-multi-point",
        ),
    ],
)
def test_order(plugins: dict[str, Any], point: str, expected: tuple[str, ...]) -> None:
    assert resolve(**plugins).plugins[point] == expected


@pytest.mark.parametrize(
    "plugins, plugin, weight",
    [
        pytest.param(
            {"score": {"enabled": [{"name": "NodeAffinity", "weight": 7}]}}, "NodeAffinity", 7, id="point"
        ),
        pytest.param(
            {"multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 7}]}},
            "NodeAffinity",
            7,
            id="multi-point",
        ),
        pytest.param(
            {
                "multiPoint": {"enabled": [{"name": "X", "weight": 7}]},
                "score": {"enabled": [{"name": "X", "weight": 8}]},
            },
            "X",
            8,
            id="point-wins",
        ),
        pytest.param(
            {"multiPoint": {"enabled": [{"name": "X", "weight": 7}]}, "score": {"enabled": names("X")}},
            "X",
            1,
            id="point-without-weight-wins-too",
        ),
        pytest.param({"score": {"enabled": [{"name": "X", "weight": 0}]}}, "X", 1, id="zero-is-one"),
        pytest.param({"score": [{"name": "Y", "weight": 30}]}, "Y", 30, id="plain-list"),
    ],
)
def test_weights(plugins: dict[str, Any], plugin: str, weight: int) -> None:
    assert resolve(**plugins).score_weights[plugin] == weight


def test_a_plugin_that_does_not_score_has_no_weight() -> None:
    assert "ImageLocality" not in resolve(score={"disabled": names("ImageLocality")}).score_weights


def test_names_are_the_plugins_that_take_part() -> None:
    resolved = resolve(multiPoint=names("PrioritySort", "DefaultBinder", "X"), filter={"enabled": names("Y")})
    assert set(resolved.names()) == {"PrioritySort", "DefaultBinder", "X", "Y"}


def test_plugins_named_are_those_to_be_built() -> None:
    profile = load(
        one_profile(plugins={"multiPoint": names("PrioritySort", "DefaultBinder"), "filter": names("X")})
    )
    assert plugins_named(profile.profiles[0]) == ("PrioritySort", "DefaultBinder", "X")


def test_args_and_percentage_come_along() -> None:
    config = load(
        document(
            profiles=[
                {
                    "schedulerName": "a",
                    "percentageOfNodesToScore": 7,
                    "pluginConfig": [{"name": "X", "args": {"k": 1}}],
                }
            ]
        )
    )
    resolved = resolve_profile(config.profiles[0], POINTS)
    assert resolved.percentage_of_nodes_to_score == 7
    assert resolved.args["X"] == {"k": 1}
