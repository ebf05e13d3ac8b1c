"""Validates a whole configuration.

In: a defaulted configuration, and properties of the plugins. Out: a `FieldError` for every violated rule. The
rules are kube-scheduler's, including those that it only checks at startup, and a few more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta

import msgspec

from kuberth.config.feature_gates import FeatureGates, gate_problems
from kuberth.config.in_tree import IN_TREE_ARGS, IN_TREE_POINTS
from kuberth.config.plugin_args import NodeResourcesFitArgs
from kuberth.config.plugin_args_validation import (
    extended_resource_problem,
    in_range,
    invalid,
    validate_args,
)
from kuberth.config.resolve import (
    ResolvedProfile,
    ignored_resources,
    normalized_points,
    plugins_named,
    resolve_profile,
)
from kuberth.config.types import (
    EXTENSION_POINTS,
    MAX_NODE_SCORE,
    SCORING_POINTS,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginRef,
    plugin_set,
)
from kuberth.text.field_errors import FieldError, child, did_you_mean, item, show

MAX_TOTAL_SCORE = 2**63 - 1

# client-go adds up to this much jitter to the retry period; a shorter deadline could pass between two
# attempts.
RETRY_JITTER = 1.2

REMOVED_PLUGINS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Plugins of earlier versions of kube-scheduler, invalid since kubescheduler.config.k8s.io/v1."""


def validate(
    config: KubeSchedulerConfiguration,
    *,
    given: KubeSchedulerConfiguration | None = None,
    known_plugins: Collection[str] | None = None,
    extension_points: Mapping[str, Collection[str]] | None = None,
    args_types: Mapping[str, type] | None = None,
) -> tuple[FieldError, ...]:
    """Every problem of a defaulted `config`.

    `given` is the configuration before defaulting: with it, paths number the plugins as in the file. Without
    `known_plugins`, all plugin names pass. `extension_points` and `args_types` describe out-of-tree plugins;
    without them, rules that need them are skipped.
    """
    gate_errors = gate_problems(config.feature_gates, "featureGates")
    gates = FeatureGates({} if gate_errors else config.feature_gates)
    points = {
        name: normalized_points(of) for name, of in {**IN_TREE_POINTS, **(extension_points or {})}.items()
    }
    types = {**IN_TREE_ARGS, **(args_types or {})}
    sources = (given.profiles if given else ()) or config.profiles
    errors = [*_settings(config), *_leader_election(config.leader_election), *gate_errors]
    resolved = [resolve_profile(profile, points) for profile in config.profiles]
    for index, (profile, source) in enumerate(zip(config.profiles, sources, strict=True)):
        path = item("profiles", index)
        errors += _profile(profile, path)
        errors += _plugin_sets(source, child(path, "plugins"), known_plugins, points)
        errors += _resolved(resolved[index], profile, path, points)
        errors += _plugin_config(profile, path, known_plugins, types, gates)
    errors += _across_profiles(config.profiles, resolved)
    errors += _extenders(config.extenders)
    errors += _ignored_resources(config)
    return tuple(errors)


def _settings(config: KubeSchedulerConfiguration) -> Iterator[FieldError]:
    if config.parallelism <= 0:
        yield invalid("parallelism", config.parallelism, "must be greater than 0")
    if config.client_connection.burst < 0:
        yield invalid("clientConnection.burst", config.client_connection.burst, "must not be negative")
    yield from in_range("percentageOfNodesToScore", config.percentage_of_nodes_to_score, 0, 100)
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        yield invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if longest < initial:
        rule = f"must be at least podInitialBackoffSeconds, which is {initial}"
        yield invalid("podMaxBackoffSeconds", longest, rule)
    if not config.profiles:
        yield FieldError("profiles", "at least one profile is required")


def _leader_election(election: LeaderElectionConfiguration) -> Iterator[FieldError]:
    if not election.leader_elect:
        return
    for name, duration in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if duration <= timedelta(0):
            yield FieldError(f"leaderElection.{name}", "must be greater than 0s", duration)
    if election.lease_duration <= election.renew_deadline:
        yield FieldError("leaderElection.leaseDuration", "must be greater than renewDeadline")
    if election.renew_deadline <= election.retry_period * RETRY_JITTER:
        yield FieldError("leaderElection.renewDeadline", f"must be greater than {RETRY_JITTER} x retryPeriod")
    if election.resource_lock != "leases":
        yield invalid("leaderElection.resourceLock", election.resource_lock, 'must be "leases"')
    for name, value in (
        ("resourceName", election.resource_name),
        ("resourceNamespace", election.resource_namespace),
    ):
        if not value:
            yield FieldError(f"leaderElection.{name}", "must not be empty")


def _profile(profile: KubeSchedulerProfile, path: str) -> Iterator[FieldError]:
    if not profile.scheduler_name:
        yield FieldError(child(path, "schedulerName"), "required when there is more than one profile")
    if profile.percentage_of_nodes_to_score is not None:
        where = child(path, "percentageOfNodesToScore")
        yield from in_range(where, profile.percentage_of_nodes_to_score, 0, 100)


def _plugin_sets(
    profile: KubeSchedulerProfile,
    path: str,
    known: Collection[str] | None,
    points: Mapping[str, frozenset[str]],
) -> Iterator[FieldError]:
    """Check the lists as given in the file. Disabling an unknown plugin is harmless, so it passes."""
    for point in (*EXTENSION_POINTS, "multiPoint"):
        seen: set[str] = set()
        for index, ref in enumerate(plugin_set(profile.plugins, point).enabled):
            where = item(child(child(path, point), "enabled"), index)
            yield from _plugin_name(child(where, "name"), ref.name, known)
            if ref.name in seen:
                message = f"plugin {show(ref.name)} is enabled twice at {point}; keep one"
                yield FieldError(child(where, "name"), message, ref.name)
            seen.add(ref.name)
            yield from _plugin_point(ref, point, where, points.get(ref.name))


def _plugin_name(path: str, name: str, known: Collection[str] | None) -> Iterator[FieldError]:
    if name in REMOVED_PLUGINS:
        yield FieldError(path, f"plugin {show(name)} no longer exists; NodeVolumeLimits does its work", name)
    elif name == "*":
        yield FieldError(path, '"*" stands for all plugins only under disabled; name the plugin', name)
    elif known is not None and name not in known:
        hint = did_you_mean(name, known) or "; if it is your own, name it with --plugin module:Class"
        yield FieldError(path, f"unknown plugin {show(name)}{hint}", name)


def _plugin_point(
    ref: PluginRef, point: str, path: str, implemented: frozenset[str] | None
) -> Iterator[FieldError]:
    if point != "multiPoint" and implemented is not None and point not in implemented:
        offers = ", ".join(one for one in EXTENSION_POINTS if one in implemented) or "no extension point"
        message = f"plugin {show(ref.name)} does not implement {point}, only {offers}"
        yield FieldError(child(path, "name"), message, ref.name)
    if not ref.weight:
        return
    if ref.weight < 0:
        yield invalid(child(path, "weight"), ref.weight, "must not be negative")
    if point not in (*SCORING_POINTS, "multiPoint"):
        message = f"a weight has no effect at {point}; remove it or give it under score"
        yield FieldError(child(path, "weight"), message, ref.weight)
    elif point == "multiPoint" and implemented is not None and not implemented & set(SCORING_POINTS):
        message = f"a weight has no effect: plugin {show(ref.name)} does not score; remove it"
        yield FieldError(child(path, "weight"), message, ref.weight)


def _resolved(
    resolved: ResolvedProfile, profile: KubeSchedulerProfile, path: str, points: Mapping[str, frozenset[str]]
) -> Iterator[FieldError]:
    """Check the rules that require multiPoint to be expanded."""
    plugins = child(path, "plugins")
    # An unknown plugin may be the missing queue sort or bind plugin.
    complete = all(ref.name in points for ref in profile.plugins.multi_point.enabled)
    sorters = resolved.plugins["queueSort"]
    if len(sorters) > 1:
        message = f"only one queue sort plugin can be enabled, not {', '.join(sorters)}; disable the others"
        yield FieldError(child(plugins, "queueSort"), message, list(sorters))
    elif not sorters and complete:
        yield FieldError(child(plugins, "queueSort"), "one queue sort plugin is needed; enable PrioritySort")
    if not resolved.plugins["bind"] and complete:
        yield FieldError(child(plugins, "bind"), "at least one bind plugin is needed; enable DefaultBinder")
    generators = resolved.plugins["placementGenerate"]
    if len(generators) > 1:
        message = f"only one plugin can generate placements, not {', '.join(generators)}"
        yield FieldError(child(plugins, "placementGenerate"), message, list(generators))
    for point, weights in (
        ("score", resolved.score_weights),
        ("placementScore", resolved.placement_score_weights),
    ):
        total = sum(weights.values())
        if total * MAX_NODE_SCORE > MAX_TOTAL_SCORE:
            message = f"the weights add up to {total}, so a total score could exceed 64 bits; lower them"
            yield FieldError(child(plugins, point), message, total)


def _plugin_config(
    profile: KubeSchedulerProfile,
    path: str,
    known: Collection[str] | None,
    types: Mapping[str, type],
    gates: FeatureGates,
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, config in enumerate(profile.plugin_config):
        where = item(child(path, "pluginConfig"), index)
        name = config.name
        if name in seen:
            yield FieldError(child(where, "name"), f"plugin {show(name)} is configured twice; keep one", name)
        seen.add(name)
        yield from _plugin_name(child(where, "name"), name, known)
        args_type = types.get(name)
        if args_type is not None and not isinstance(config.args, args_type):
            message = f"expected {args_type.__name__}, got {type(config.args).__name__}"
            yield FieldError(child(where, "args"), message, config.args)
        else:
            yield from validate_args(config.args, child(where, "args"), gates)
    for name in plugins_named(profile):
        if name in types and name not in seen:
            missing = [one.encode_name for one in msgspec.structs.fields(types[name]) if one.required]
            message = f"plugin {show(name)} is enabled but needs args: {', '.join(missing)}"
            yield FieldError(child(path, "pluginConfig"), message, name)


def _across_profiles(
    profiles: tuple[KubeSchedulerProfile, ...], resolved: list[ResolvedProfile]
) -> Iterator[FieldError]:
    first_with: dict[str, int] = {}
    for index, profile in enumerate(profiles):
        name = profile.scheduler_name
        first = first_with.setdefault(name, index)
        if name and first != index:
            where = child(item("profiles", index), "schedulerName")
            yield FieldError(where, f"{show(name)} is the name of profiles[{first}] already", name)
    for index, one in enumerate(resolved[1:], start=1):
        # There is one queue, so there can be only one order.
        sorters, first_sorters = one.plugins["queueSort"], resolved[0].plugins["queueSort"]
        path = item("profiles", index)
        if sorters != first_sorters:
            message = (
                f"must be the same in all profiles: profiles[0] has {', '.join(first_sorters) or 'none'},"
                f" this has {', '.join(sorters) or 'none'}"
            )
            yield FieldError(child(child(path, "plugins"), "queueSort"), message, list(sorters))
        elif any(one.args.get(name) != resolved[0].args.get(name) for name in sorters):
            message = f"the args of {sorters[0]}, which sorts the queue, must be the same in all profiles"
            yield FieldError(child(path, "pluginConfig"), message, one.args.get(sorters[0]))


def _extenders(extenders: tuple[Extender, ...]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, extender in enumerate(extenders):
        path = item("extenders", index)
        if extender.prioritize_verb and extender.weight <= 0:
            rule = "must be greater than 0 when there is a prioritizeVerb"
            yield invalid(child(path, "weight"), extender.weight, rule)
        if extender.http_timeout < timedelta(0):
            yield FieldError(child(path, "httpTimeout"), "must not be negative", extender.http_timeout)
        for number, resource in enumerate(extender.managed_resources):
            where = child(item(child(path, "managedResources"), number), "name")
            problem = extended_resource_problem(resource.name)
            if problem:
                yield invalid(where, resource.name, problem)
            if resource.name in seen:
                yield FieldError(
                    where, f"{show(resource.name)} is managed by an extender already", resource.name
                )
            seen.add(resource.name)
    binders = [index for index, extender in enumerate(extenders) if extender.bind_verb]
    if len(binders) > 1:
        which = ", ".join(str(index) for index in binders)
        yield FieldError("extenders", f"only one extender can bind, but extenders {which} have a bindVerb")


def _ignored_resources(config: KubeSchedulerConfiguration) -> Iterator[FieldError]:
    if not ignored_resources(config.extenders):
        return
    for index, profile in enumerate(config.profiles):
        if not any(isinstance(entry.args, NodeResourcesFitArgs) for entry in profile.plugin_config):
            message = (
                "an extender has NodeResourcesFit ignore a resource, but this profile has no such plugin; "
                "enable it, or remove ignoredByScheduler"
            )
            yield FieldError(child(item("profiles", index), "plugins"), message)
