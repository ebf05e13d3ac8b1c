"""Adds the defaults to a configuration.

In: a decoded configuration and the feature gates. Out: the complete configuration: every profile with its
merged plugin sets and its arguments. The operation is idempotent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kuberth.config import plugin_args
from kuberth.config.feature_gates import FeatureGates
from kuberth.config.in_tree import IN_TREE_ARGS, IN_TREE_PLUGINS
from kuberth.config.resolve import plugins_named
from kuberth.config.types import (
    DEFAULT_SCHEDULER_NAME,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
)

S = TypeVar("S", bound=msgspec.Struct)

_NOT_EMPTY = (
    *("lease_duration", "renew_deadline", "retry_period"),
    *("resource_lock", "resource_name", "resource_namespace"),
)
"""Fields of leader election in which zero or an empty string means the default."""


def default_multi_point(gates: FeatureGates) -> PluginSet:
    """The default profile's plugins, without those whose feature gate is off."""
    return PluginSet(
        enabled=tuple(
            PluginRef(name=name, weight=plugin.weight or None)
            for name, plugin in IN_TREE_PLUGINS.items()
            if plugin.gate is None or gates.enabled(plugin.gate)
        )
    )


def default_configuration(gates: FeatureGates | None = None) -> KubeSchedulerConfiguration:
    """The configuration used without a configuration file."""
    gates = gates or FeatureGates()
    return apply_defaults(KubeSchedulerConfiguration(feature_gates=dict(gates.explicit)), gates=gates)


def apply_defaults(
    config: KubeSchedulerConfiguration,
    *,
    gates: FeatureGates | None = None,
    args_types: Mapping[str, type] | None = None,
) -> KubeSchedulerConfiguration:
    """Complete `config`; `gates` default to the file's, `args_types` are those of out-of-tree plugins."""
    gates = FeatureGates(config.feature_gates) if gates is None else gates
    types = {**IN_TREE_ARGS, **(args_types or {})}
    profiles = config.profiles or (KubeSchedulerProfile(),)
    # Two profiles without a name would collide: validation requires names.
    if len(profiles) == 1 and not profiles[0].scheduler_name:
        profiles = (replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME),)
    contention = config.enable_contention_profiling
    return replace(
        config,
        profiles=tuple(_profile(profile, gates, types) for profile in profiles),
        leader_election=_zero_is_default(config.leader_election, _NOT_EMPTY),
        client_connection=_zero_is_default(config.client_connection, ("content_type", "qps", "burst")),
        # kube-scheduler keeps the zero and reads it as five seconds when it calls; printed files say five.
        extenders=tuple(_zero_is_default(extender, ("http_timeout",)) for extender in config.extenders),
        enable_contention_profiling=config.enable_profiling if contention is None else contention,
    )


def _zero_is_default(given: S, names: Iterable[str]) -> S:
    """The struct with defaults in fields where an explicit zero or empty string means "not set"."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(type(given))}
    changes = {name: defaults[name] for name in names if not getattr(given, name)}
    return replace(given, **changes) if changes else given


def _profile(
    profile: KubeSchedulerProfile, gates: FeatureGates, types: Mapping[str, type]
) -> KubeSchedulerProfile:
    profile = replace(profile, plugins=merge_plugins(profile.plugins, default_multi_point(gates)))
    configured = tuple(replace(config, args=_args(config, gates, types)) for config in profile.plugin_config)
    named = {config.name for config in configured}
    missing = sorted(types.keys() & set(plugins_named(profile)) - named)
    added = tuple(
        replace(config, args=args)
        for config in (PluginConfig(name=name) for name in missing)
        if (args := _args(config, gates, types)) is not None
    )
    return replace(profile, plugin_config=configured + added)


def merge_plugins(custom: Plugins, default_multi_point: PluginSet) -> Plugins:
    """The default profile modified by `custom`. Only multiPoint has defaults."""
    sets = {name: merge_plugin_set(getattr(custom, name), PluginSet()) for name in Plugins.__struct_fields__}
    sets["multi_point"] = merge_plugin_set(custom.multi_point, default_multi_point)
    return Plugins(**sets)


def merge_plugin_set(custom: PluginSet, default: PluginSet) -> PluginSet:
    """The defaults in their order, reconfigured where `custom` names them, followed by its other plugins.

    A plugin that is enabled twice stays there twice, so that validation can report it.
    """
    disabled = [PluginRef(name=ref.name) for ref in (*custom.disabled, *default.disabled)]
    gone = {ref.name for ref in disabled}
    last_named = {ref.name: index for index, ref in enumerate(custom.enabled)}
    kept = [] if "*" in gone else [ref for ref in default.enabled if ref.name not in gone]
    replacing = {last_named[ref.name] for ref in kept if ref.name in last_named}
    enabled = [custom.enabled[last_named[ref.name]] if ref.name in last_named else ref for ref in kept]
    enabled += [ref for index, ref in enumerate(custom.enabled) if index not in replacing]
    return PluginSet(enabled=tuple(enabled), disabled=tuple(disabled))


def _args(config: PluginConfig, gates: FeatureGates, types: Mapping[str, type]) -> Any:
    """A plugin's arguments with defaults that are not constants."""
    args = config.args
    if args is None and config.name in types:
        args_type = types[config.name]
        # Validation reports a required field that is missing.
        is_complete = not any(field.required for field in msgspec.structs.fields(args_type))
        args = args_type() if is_complete else None
    match args:
        case plugin_args.NodeResourcesFitArgs():
            strategy = args.scoring_strategy
            resources = _resources(strategy.resources)
            return replace(args, scoring_strategy=replace(strategy, resources=resources))
        case plugin_args.NodeResourcesBalancedAllocationArgs():
            return replace(args, resources=_resources(args.resources))
        case plugin_args.PodTopologySpreadArgs(defaulting_type=""):
            return replace(args, defaulting_type="System")
        case plugin_args.VolumeBindingArgs(shape=()) if gates.enabled("StorageCapacityScoring"):
            # The fuller a volume would be, the lower the score.
            empty = plugin_args.UtilizationShapePoint(utilization=0, score=plugin_args.MAX_CUSTOM_SCORE)
            full = plugin_args.UtilizationShapePoint(utilization=100, score=0)
            return replace(args, shape=(empty, full))
        case plugin_args.DynamicResourcesArgs():
            return _dynamic_resources(args, gates)
        case _:
            return args


def _dynamic_resources(
    args: plugin_args.DynamicResourcesArgs, gates: FeatureGates
) -> plugin_args.DynamicResourcesArgs:
    if args.filter_timeout is None and gates.enabled("DRASchedulerFilterTimeout"):
        args = replace(args, filter_timeout=plugin_args.FILTER_TIMEOUT)
    conditions = gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")
    if args.binding_timeout is None and conditions:
        args = replace(args, binding_timeout=plugin_args.BINDING_TIMEOUT)
    return args


def _resources(given: tuple[plugin_args.ResourceSpec, ...]) -> tuple[plugin_args.ResourceSpec, ...]:
    return tuple(replace(spec, weight=spec.weight or 1) for spec in given) or plugin_args.CPU_AND_MEMORY
