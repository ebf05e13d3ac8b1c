from __future__ import annotations

from typing import Any

import pytest

from kuberth.errors import ConfigError
from kuberth.framework import (
    BindPlugin,
    EnqueueExtensions,
    FilterPlugin,
    PermitPlugin,
    PermitResult,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    Status,
)
from kuberth.framework.extension_points import EXTENSION_POINTS, points_of
from tests.unit.framework.harness import build, plugin


@pytest.mark.parametrize(
    "point, missing",
    [
        (EnqueueExtensions, "events_to_register"),
        (PreEnqueuePlugin, "pre_enqueue"),
        (PreFilterPlugin, "pre_filter"),
        (PostFilterPlugin, "post_filter"),
        (PreScorePlugin, "pre_score"),
        (PermitPlugin, "permit"),
        (PreBindPlugin, "pre_bind"),
        (BindPlugin, "bind"),
        (PostBindPlugin, "post_bind"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_plugin_without_its_method_cannot_be_made(point: type[Plugin], missing: str) -> None:
    with pytest.raises(TypeError, match=f"abstract class Broken.*{missing}"):
        plugin("Broken", point)()


@pytest.mark.parametrize(
    "point, given, missing",
    [
        (ReservePlugin, "reserve", "unreserve"),
        (ReservePlugin, "unreserve", "reserve"),
        (PreFilterExtensions, "add_pod", "pre_filter'?, '?remove_pod"),
    ],
    ids=["reserve-alone", "unreserve-alone", "add-pod-alone"],
)
def test_half_a_point_is_not_enough(point: type[Plugin], given: str, missing: str) -> None:
    with pytest.raises(TypeError, match=missing):
        plugin("Broken", point, **{given: None})()


@pytest.mark.parametrize(
    "point, message",
    [
        (
            FilterPlugin,
            r"Can't instantiate plugin Broken: FilterPlugin asks for filter\(\) or filter_nodes\(\)",
        ),
        (ScorePlugin, r"Can't instantiate plugin Broken: ScorePlugin asks for score\(\) or score_nodes\(\)"),
        (
            QueueSortPlugin,
            r"Can't instantiate plugin Broken: QueueSortPlugin asks for less\(\) or sort_key\(\)",
        ),
    ],
    ids=["filter", "score", "queue-sort"],
)
def test_one_of_two_forms_is_needed(point: type[Plugin], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        plugin("Broken", point)()


@pytest.mark.parametrize(
    "point, form",
    [
        (FilterPlugin, "filter"),
        (FilterPlugin, "filter_nodes"),
        (ScorePlugin, "score"),
        (ScorePlugin, "score_nodes"),
    ],
)
def test_either_form_is_enough(point: type[Plugin], form: str) -> None:
    assert isinstance(plugin("Fine", point, **{form: None})(), point)


def test_an_inherited_form_counts() -> None:
    parent = plugin("Parent", FilterPlugin, filter=None)
    assert isinstance(plugin("Child", parent)(), FilterPlugin)


def test_a_profile_says_which_plugin_is_incomplete() -> None:
    with pytest.raises(ConfigError, match=r"plugin 'Broken' cannot be initialized: .*unreserve"):
        build(plugin("Broken", ReservePlugin, reserve=None))
    with pytest.raises(
        ConfigError, match=r"plugin 'Broken' cannot be initialized: .*filter\(\) or filter_nodes"
    ):
        build(plugin("Broken", FilterPlugin))


def test_the_points_are_those_of_the_configuration() -> None:
    assert [(point.key, point.label) for point in EXTENSION_POINTS] == [
        ("preEnqueue", "PreEnqueue"),
        ("queueSort", "QueueSort"),
        ("preFilter", "PreFilter"),
        ("filter", "Filter"),
        ("postFilter", "PostFilter"),
        ("preScore", "PreScore"),
        ("score", "Score"),
        ("reserve", "Reserve"),
        ("permit", "Permit"),
        ("preBind", "PreBind"),
        ("bind", "Bind"),
        ("postBind", "PostBind"),
        ("placementGenerate", "PlacementGenerate"),
        ("placementScore", "PlacementScore"),
    ]


@pytest.mark.parametrize(
    "bases, points",
    [
        pytest.param((), (), id="none"),
        pytest.param((EnqueueExtensions,), (), id="events-are-no-point"),
        pytest.param((PreFilterExtensions,), ("preFilter",), id="extensions-of-pre-filter"),
        pytest.param((ScorePlugin, FilterPlugin), ("filter", "score"), id="in-the-order-of-a-cycle"),
    ],
)
def test_points_of_a_class(bases: tuple[type[Plugin], ...], points: tuple[str, ...]) -> None:
    assert points_of(plugin("P", *(bases or (Plugin,)))) == points


def test_waiting_has_a_short_way() -> None:
    expected: Any = (Status.wait("for the others"), 5.0)
    assert PermitResult.wait(5.0, "for the others") == expected
