"""Assembles profiles: for every scheduler name its plugins, its handle and its runner.

In: a configuration, a registry, and the components that plugins may use. Out: a `Runner` per profile, with or
without a scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import FeatureGates, KubeSchedulerConfiguration, leaving_to_extenders, load
from kuberth.config.loading import Source
from kuberth.config.types import API_VERSION, KIND
from kuberth.framework.handle import Handle
from kuberth.framework.profile import build_profile
from kuberth.framework.registry import PluginFactory, Registry
from kuberth.framework.runner import Runner
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.plugins import in_tree_registry


def full_registry(
    plugins: Mapping[str, PluginFactory] | None = None, *, entry_points: bool = True
) -> Registry:
    """In-tree plugins, those of installed packages, and the caller's own."""
    registry = in_tree_registry()
    if entry_points:
        registry.load_entry_points()
    registry.merge(Registry(plugins))
    return registry


def load_configuration(
    source: Source | None, registry: Registry, *, feature_gates: Mapping[str, bool] | None = None
) -> KubeSchedulerConfiguration:
    """Load a configuration that uses the plugins of a registry; None is the default configuration.

    InvalidConfiguration with all problems. `feature_gates` override those of the source.
    """
    return load(
        {"apiVersion": API_VERSION, "kind": KIND} if source is None else source,
        feature_gates=feature_gates,
        known_plugins=registry.names(),
        extension_points=registry.extension_points(),
        args_types=registry.args_types(),
    )


def assemble(
    config: KubeSchedulerConfiguration,
    *,
    registry: Registry,
    handle: Handle,
    metrics: SchedulerMetrics,
    with_plans: bool = True,
) -> Mapping[str, Runner]:
    """The runners by scheduler name, in the configuration's order.

    Each profile gets its own copy of the handle, with the profile's runner.
    """
    runners: dict[str, Runner] = {}
    for profile_config in leaving_to_extenders(config):
        own = replace(handle, profile_name=profile_config.scheduler_name)
        profile = build_profile(profile_config, registry, own)
        own.runner = Runner(
            profile,
            cluster=handle.cluster,
            nominator=handle.nominator,
            metrics=metrics,
            with_plans=with_plans,
            extenders=handle.extenders,
        )
        runners[profile.scheduler_name] = own.runner
    return runners


def derive_with(gates: FeatureGates) -> Callable[[Pod], PodInfo]:
    """A function that derives `PodInfo` from pods according to these feature gates."""
    return partial(
        PodInfo,
        pod_level_resources=gates.enabled("PodLevelResources"),
        with_devices=gates.enabled("DRANodeAllocatableResources"),
    )


def effective_gates(config: KubeSchedulerConfiguration, gates: FeatureGates | None) -> FeatureGates:
    """Gates of the configuration file, overridden by those given separately."""
    from_file = FeatureGates(config.feature_gates)
    return from_file if gates is None else from_file.merge(gates)
