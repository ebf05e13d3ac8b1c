"""Resolves a profile's plugin sets to the plugins of each extension point, in order.

In: a defaulted profile, and the extension points of every plugin. Out: `ResolvedProfile`, from which the
framework builds its call lists. The order is kube-scheduler's, since it determines which plugin rejects
first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kuberth.config.plugin_args import NodeResourcesFitArgs
from kuberth.config.types import (
    EXTENSION_POINTS,
    SCORING_POINTS,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    Plugins,
    PluginSet,
    plugin_set,
)


class ResolvedProfile(Struct, frozen=True, kw_only=True):
    """`plugins` has every extension point, by its name in configurations (`preFilter`), in running order."""

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    plugins: Mapping[str, tuple[str, ...]]
    score_weights: Mapping[str, int]
    placement_score_weights: Mapping[str, int]
    args: Mapping[str, Any]

    def names(self) -> tuple[str, ...]:
        """All plugins of the profile once, in the order of the first extension point where they occur."""
        return tuple(dict.fromkeys(name for names in self.plugins.values() for name in names))


def ignored_resources(extenders: Iterable[Extender]) -> tuple[str, ...]:
    """Resources that extenders manage, and that NodeResourcesFit ignores."""
    return tuple(
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )


def leaving_to_extenders(config: KubeSchedulerConfiguration) -> tuple[KubeSchedulerProfile, ...]:
    """The resolved profiles; if extenders name ignored resources, NodeResourcesFit ignores these."""
    ignored = ignored_resources(config.extenders)
    if not ignored:
        return config.profiles
    return tuple(
        replace(
            profile,
            plugin_config=tuple(
                replace(entry, args=replace(entry.args, ignored_resources=ignored))
                if isinstance(entry.args, NodeResourcesFitArgs)
                else entry
                for entry in profile.plugin_config
            ),
        )
        for profile in config.profiles
    )


def resolve_profile(
    profile: KubeSchedulerProfile, points_of: Mapping[str, Collection[str]]
) -> ResolvedProfile:
    """Expand `multiPoint`. `points_of` may use `preFilter` or `PreFilter`."""
    implemented = {name: normalized_points(points) for name, points in points_of.items()}
    resolved = {point: _resolve_point(profile.plugins, point, implemented) for point in EXTENSION_POINTS}
    weights = {point: _weights(profile.plugins, point, resolved[point]) for point in SCORING_POINTS}
    return ResolvedProfile(
        scheduler_name=profile.scheduler_name,
        percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
        plugins=resolved,
        score_weights=weights["score"],
        placement_score_weights=weights["placementScore"],
        args={config.name: config.args for config in profile.plugin_config},
    )


def plugins_named(profile: KubeSchedulerProfile) -> tuple[str, ...]:
    """All plugins that the profile enables, at `multiPoint` or at a point; each has to be constructed."""
    sets = (plugin_set(profile.plugins, point) for point in ("multiPoint", *EXTENSION_POINTS))
    return tuple(dict.fromkeys(ref.name for each in sets for ref in each.enabled))


def normalized_points(points: Collection[str]) -> frozenset[str]:
    """Extension points as written in configurations; unknown ones are dropped."""
    return frozenset(point[:1].lower() + point[1:] for point in points) & frozenset(EXTENSION_POINTS)


def _resolve_point(
    plugins: Plugins, point: str, implemented: Mapping[str, frozenset[str]]
) -> tuple[str, ...]:
    own = plugin_set(plugins, point)
    own_names = _names(own)
    disabled = {ref.name for ref in own.disabled}
    if "*" in disabled:
        return own_names
    expanded = [
        name
        for name in _names(plugins.multi_point)
        if name not in disabled and point in implemented.get(name, ())
    ]
    # Three groups: what the point re-configures of multiPoint, in the point's order; the rest of multiPoint;
    # the rest of the point. A plugin both disabled and enabled at the point therefore moves to the end.
    overriding = [name for name in own_names if name in expanded]
    inherited = [name for name in expanded if name not in own_names]
    added = [name for name in own_names if name not in overriding]
    return (*overriding, *inherited, *added)


def _names(plugins: PluginSet) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ref.name for ref in plugins.enabled))


def _weights(plugins: Plugins, point: str, names: tuple[str, ...]) -> dict[str, int]:
    """The point's weight overrides multiPoint's; a plugin without a weight has weight 1."""
    given: dict[str, int] = {}
    for ref in (*plugin_set(plugins, point).enabled, *plugins.multi_point.enabled):
        given.setdefault(ref.name, ref.weight or 1)
    return {name: given[name] for name in names}
