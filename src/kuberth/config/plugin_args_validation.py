"""Validates the arguments of in-tree plugins.

In: the arguments of one plugin, defaulted, and their path. Out: a `FieldError` for each violated rule.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from kuberth.api.core import NodeAffinity, NodeSelector, TopologySpreadConstraint
from kuberth.api.selectors import CompiledNodeSelector, compile_node_selector, is_label_key
from kuberth.config import plugin_args
from kuberth.config.feature_gates import FeatureGates
from kuberth.text.durations import format_duration
from kuberth.text.field_errors import FieldError, child, item, show

SCORING_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
DEFAULTING_TYPES = ("List", "System")
UNSATISFIABLE_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


_QUOTA_PREFIX = "requests."


def validate_args(args: Any, path: str, gates: FeatureGates) -> Iterator[FieldError]:
    """Arguments of out-of-tree plugins pass: the plugins validate them."""
    match args:
        case plugin_args.DefaultPreemptionArgs():
            yield from _default_preemption(args, path)
        case plugin_args.InterPodAffinityArgs():
            yield from in_range(child(path, "hardPodAffinityWeight"), args.hard_pod_affinity_weight, 0, 100)
        case plugin_args.NodeAffinityArgs(added_affinity=NodeAffinity() as affinity):
            yield from _node_affinity(affinity, child(path, "addedAffinity"))
        case plugin_args.NodeResourcesBalancedAllocationArgs():
            yield from _balanced_allocation(args, path)
        case plugin_args.NodeResourcesFitArgs():
            yield from _node_resources_fit(args, path)
        case plugin_args.PodTopologySpreadArgs():
            yield from _pod_topology_spread(args, path)
        case plugin_args.VolumeBindingArgs():
            yield from _volume_binding(args, path, gates)
        case plugin_args.DynamicResourcesArgs():
            yield from _dynamic_resources(args, path, gates)


def _default_preemption(args: plugin_args.DefaultPreemptionArgs, path: str) -> Iterator[FieldError]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    yield from in_range(child(path, "minCandidateNodesPercentage"), percentage, 0, 100)
    yield from _not_negative(child(path, "minCandidateNodesAbsolute"), absolute)
    if percentage == 0 and absolute == 0:
        # Reported at both fields, since either can be fixed.
        for name, other in (("Percentage", "Absolute"), ("Absolute", "Percentage")):
            message = f"cannot be zero at the same time as minCandidateNodes{other}"
            yield FieldError(child(path, f"minCandidateNodes{name}"), message, 0)


def _node_affinity(affinity: NodeAffinity, path: str) -> Iterator[FieldError]:
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is not None:
        where = child(child(path, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms")
        yield from _selector_errors(compile_node_selector(required, path=where))
    path = child(path, "preferredDuringSchedulingIgnoredDuringExecution")
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        where = child(item(path, index), "preference")
        # It has the rules of a required term, so the term is compiled as the only one of a selector.
        alone = NodeSelector(node_selector_terms=(preferred.preference,))
        for error in _selector_errors(compile_node_selector(alone, path=where)):
            yield error._replace(path=where + error.path.removeprefix(item(where, 0)))


def _selector_errors(selector: CompiledNodeSelector) -> Iterator[FieldError]:
    for error in selector.errors:
        path, _, message = error.partition(": ")
        yield FieldError(path, message)


def _balanced_allocation(
    args: plugin_args.NodeResourcesBalancedAllocationArgs, path: str
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, resource in enumerate(args.resources):
        where = item(child(path, "resources"), index)
        if resource.name in seen:
            yield FieldError(child(where, "name"), f"{show(resource.name)} is listed twice", resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            # Balance is the spread between resources: a weight has no meaning in it.
            yield invalid(child(where, "weight"), resource.weight, "must be 1")


def _node_resources_fit(args: plugin_args.NodeResourcesFitArgs, path: str) -> Iterator[FieldError]:
    for index, resource in enumerate(args.ignored_resources):
        yield from _qualified(item(child(path, "ignoredResources"), index), resource)
    for index, group in enumerate(args.ignored_resource_groups):
        where = item(child(path, "ignoredResourceGroups"), index)
        if "/" in group:
            yield invalid(where, group, "must be a group such as \"example.com\", without '/'")
        else:
            yield from _qualified(where, group)
    yield from _scoring_strategy(args.scoring_strategy, child(path, "scoringStrategy"))


def _scoring_strategy(strategy: plugin_args.ScoringStrategy, path: str) -> Iterator[FieldError]:
    yield from _one_of(child(path, "type"), strategy.type, SCORING_STRATEGIES)
    for index, resource in enumerate(strategy.resources):
        where = child(item(child(path, "resources"), index), "weight")
        yield from in_range(where, resource.weight, 1, 100)
    where = child(path, "requestedToCapacityRatio")
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type == "RequestedToCapacityRatio":
        if ratio is None:
            yield FieldError(where, "required when type is RequestedToCapacityRatio")
        else:
            yield from _shape(child(where, "shape"), ratio.shape)
    elif ratio is not None:
        yield FieldError(where, "only allowed when type is RequestedToCapacityRatio; remove it")


def _pod_topology_spread(args: plugin_args.PodTopologySpreadArgs, path: str) -> Iterator[FieldError]:
    where = child(path, "defaultingType")
    yield from _one_of(where, args.defaulting_type, DEFAULTING_TYPES)
    if args.defaulting_type == "System" and args.default_constraints:
        yield invalid(where, args.defaulting_type, "must be List when there are defaultConstraints")
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(args.default_constraints):
        where = item(child(path, "defaultConstraints"), index)
        yield from _constraint(constraint, where)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            yield FieldError(
                where, "a constraint with this topologyKey and whenUnsatisfiable is there already"
            )
        seen.add(pair)


def _constraint(constraint: TopologySpreadConstraint, path: str) -> Iterator[FieldError]:
    if constraint.max_skew <= 0:
        yield invalid(child(path, "maxSkew"), constraint.max_skew, "must be greater than 0")
    where = child(path, "topologyKey")
    if not constraint.topology_key:
        yield FieldError(where, "required, but missing")
    else:
        yield from _qualified(where, constraint.topology_key)
    where = child(path, "whenUnsatisfiable")
    if not constraint.when_unsatisfiable:
        yield FieldError(where, "required, but missing")
    else:
        yield from _one_of(where, constraint.when_unsatisfiable, UNSATISFIABLE_ACTIONS)
    if constraint.label_selector is not None:
        yield FieldError(
            child(path, "labelSelector"),
            "must not be given: for a default constraint it is taken from the pod's services and owners",
        )


def _volume_binding(
    args: plugin_args.VolumeBindingArgs, path: str, gates: FeatureGates
) -> Iterator[FieldError]:
    yield from _not_negative(child(path, "bindTimeoutSeconds"), args.bind_timeout_seconds)
    where = child(path, "shape")
    if gates.enabled("StorageCapacityScoring"):
        yield from _shape(where, args.shape)
    elif args.shape:
        # Otherwise it would silently take effect when the gate graduates.
        yield FieldError(where, "has no effect; remove it or turn on the feature gate StorageCapacityScoring")


def _dynamic_resources(
    args: plugin_args.DynamicResourcesArgs, path: str, gates: FeatureGates
) -> Iterator[FieldError]:
    where = child(path, "filterTimeout")
    if args.filter_timeout is not None:
        if not gates.enabled("DRASchedulerFilterTimeout"):
            yield FieldError(
                where, "the feature gate DRASchedulerFilterTimeout is off; turn it on or remove this"
            )
        elif args.filter_timeout < timedelta(0):
            yield invalid(where, format_duration(args.filter_timeout), "must be zero or positive")
    where = child(path, "bindingTimeout")
    if args.binding_timeout is not None:
        off = [
            name
            for name in ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
            if not gates.enabled(name)
        ]
        if off:
            yield FieldError(where, f"feature gate off: {', '.join(off)}; turn it on or remove this")
        elif args.binding_timeout < timedelta(seconds=1):
            yield invalid(where, format_duration(args.binding_timeout), "must be at least 1s")


def _shape(path: str, shape: tuple[plugin_args.UtilizationShapePoint, ...]) -> Iterator[FieldError]:
    if not shape:
        yield FieldError(path, "at least one point is required")
    for index, (before, point) in enumerate(itertools.pairwise(shape), start=1):
        if before.utilization >= point.utilization:
            where = child(item(path, index), "utilization")
            yield invalid(where, point.utilization, "must be greater than the point before it")
            break
    for index, point in enumerate(shape):
        yield from in_range(child(item(path, index), "utilization"), point.utilization, 0, 100)
        yield from in_range(child(item(path, index), "score"), point.score, 0, plugin_args.MAX_CUSTOM_SCORE)


def _qualified(path: str, name: str) -> Iterator[FieldError]:
    problem = qualified_name_problem(name)
    if problem:
        yield invalid(path, name, problem)


def _one_of(path: str, value: str, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    if value not in allowed:
        yield invalid(path, value, f"must be one of {', '.join(allowed)}")


def in_range(path: str, value: int, low: int, high: int) -> Iterator[FieldError]:
    """The problem of a value outside of a range, if it is one."""
    if not low <= value <= high:
        yield invalid(path, value, f"must be from {low} to {high}")


def _not_negative(path: str, value: int) -> Iterator[FieldError]:
    if value < 0:
        yield invalid(path, value, "must not be negative")


def invalid(path: str, value: Any, rule: str) -> FieldError:
    return FieldError(path, f"{rule}, got {show(value)}", value)


def qualified_name_problem(name: str) -> str | None:
    """Label keys, topology keys and resources follow one rule: `name` or `dns.prefix/name`."""
    if is_label_key(name):
        return None
    return (
        "must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends,"
        " and may have a lower-case DNS name and a slash in front"
    )


def extended_resource_problem(name: str) -> str | None:
    """An extended resource is a qualified name with a prefix that is not Kubernetes' own."""
    problem = qualified_name_problem(name)
    if problem:
        return problem
    # Quotas count an extended resource under `requests.NAME`, which must be a valid name too.
    is_native = "/" not in name or "kubernetes.io/" in name
    if is_native or name.startswith(_QUOTA_PREFIX) or qualified_name_problem(_QUOTA_PREFIX + name):
        return 'must be an extended resource such as "example.com/gpu", outside kubernetes.io'
    return None
