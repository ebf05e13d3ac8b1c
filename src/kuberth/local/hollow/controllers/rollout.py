"""The arithmetic of rollouts: the next sizes of a deployment's replica sets.

In: a deployment, the replica set of its present template, and those of earlier ones. Out: new sizes by name,
only where they change. There is no I/O: surge and unavailability during a rollout, and proportions when a
deployment is scaled in the middle of one, follow kube-controller-manager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj, annotated_number, by_age, name_of

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"

Sizes = Mapping[str, int]


def replicas_of(obj: Obj) -> int:
    """The number of replicas in the spec of a deployment or replica set."""
    return int(obj["spec"].get("replicas", 1))


def available_of(replica_set: Obj) -> int:
    return int(replica_set.get("status", {}).get("availableReplicas", 0))


def is_recreate(deployment: Obj) -> bool:
    return bool((deployment["spec"].get("strategy") or {}).get("type") == "Recreate")


def fenceposts(deployment: Obj) -> tuple[int, int]:
    """maxSurge and maxUnavailable in pods; if both are zero, one pod may be unavailable."""
    if is_recreate(deployment):
        return 0, 0
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    wanted = replicas_of(deployment)
    surge = scaled(rolling.get("maxSurge", "25%"), wanted, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, wanted)


def first_size(deployment: Obj, old: Sequence[Obj], *, now: int = 0) -> int:
    """The size to which the newest replica set, with `now` pods, may grow beside the old ones."""
    wanted = replicas_of(deployment)
    if is_recreate(deployment):
        return wanted
    surge, _ = fenceposts(deployment)
    spare = wanted + surge - now - sum(map(replicas_of, old))
    return now + min(spare, wanted - now) if spare > 0 else now


def rolling_sizes(deployment: Obj, new: Obj, old: Sequence[Obj]) -> Sizes:
    """The next step of a rolling update: grow the new set, or else shrink the old ones."""
    wanted, size = replicas_of(deployment), replicas_of(new)
    target = wanted if size > wanted else first_size(deployment, old, now=size)
    if target != size:
        return {name_of(new): target}
    return _shrunk(deployment, new, [each for each in old if replicas_of(each)])


def recreate_sizes(deployment: Obj, new: Obj | None, old: Sequence[Obj], *, old_pods: bool) -> Sizes:
    """The next step of Recreate: nothing new until everything old is gone."""
    shrunk = {name_of(each): 0 for each in old if replicas_of(each)}
    if shrunk or old_pods or new is None or replicas_of(new) == replicas_of(deployment):
        return shrunk
    return {name_of(new): replicas_of(deployment)}


def is_scaling(deployment: Obj, sets: Iterable[Obj]) -> bool:
    """Whether the deployment was scaled since its active replica sets were last sized."""
    wanted = replicas_of(deployment)
    marks = (annotated_number(each, DESIRED) for each in sets if replicas_of(each))
    return any(mark is not None and mark != wanted for mark in marks)


def scaling_sizes(deployment: Obj, new: Obj | None, old: Sequence[Obj]) -> Sizes:
    """Sizes after the deployment was scaled, or while it is paused: every active set by its share.

    Contains every set whose marks must be renewed, changed in size or not.
    """
    wanted = replicas_of(deployment)
    everything = [*old, *([] if new is None else [new])]
    active = [each for each in everything if replicas_of(each)]
    if len(active) <= 1:
        only = active[0] if active else (new or max(old, key=by_age, default=None))
        return {} if only is None else {name_of(only): wanted}
    if new is not None and _is_saturated(deployment, new):
        return {name_of(each): 0 for each in active if each is not new} | {name_of(new): replicas_of(new)}
    if is_recreate(deployment):
        return {}
    surge, _ = fenceposts(deployment)
    to_add = (wanted + surge if wanted else 0) - sum(map(replicas_of, active))
    # Larger sets first; among equals the newer grow first and the older shrink first.
    active.sort(key=by_age, reverse=to_add > 0)
    active.sort(key=replicas_of, reverse=True)
    sizes, added = {}, 0
    for each in active:
        share = _share(deployment, each, allowed=to_add - added) if to_add else 0
        sizes[name_of(each)] = replicas_of(each) + share
        added += share
    largest = name_of(active[0])
    sizes[largest] = max(0, sizes[largest] + to_add - added)
    return sizes


def marks(deployment: Obj) -> dict[str, str]:
    """The annotations that record how a replica set was sized."""
    wanted = replicas_of(deployment)
    surge, _ = fenceposts(deployment)
    return {DESIRED: str(wanted), MAXIMUM: str(wanted + surge)}


def _shrunk(deployment: Obj, new: Obj, old: Sequence[Obj]) -> Sizes:
    _, unavailable = fenceposts(deployment)
    minimum = replicas_of(deployment) - unavailable
    total = sum(map(replicas_of, old)) + replicas_of(new)
    # Unavailable pods of the new set must not reduce the available old ones.
    budget = total - minimum - (replicas_of(new) - available_of(new))
    if budget <= 0 or not old:
        return {}
    sizes = {name_of(each): replicas_of(each) for each in old}
    oldest_first = sorted(old, key=by_age)
    # Unhealthy pods first: deleting them does not reduce availability.
    for each in oldest_first:
        cut = min(budget, max(0, replicas_of(each) - available_of(each)))
        sizes[name_of(each)] -= cut
        budget -= cut
    spare = available_of(new) + sum(map(available_of, old)) - minimum
    for each in oldest_first:
        cut = max(0, min(sizes[name_of(each)], spare))
        sizes[name_of(each)] -= cut
        spare -= cut
    return {name_of(each): sizes[name_of(each)] for each in old if sizes[name_of(each)] != replicas_of(each)}


def _is_saturated(deployment: Obj, new: Obj) -> bool:
    wanted = replicas_of(deployment)
    return replicas_of(new) == wanted == annotated_number(new, DESIRED) and available_of(new) == wanted


def _share(deployment: Obj, replica_set: Obj, *, allowed: int) -> int:
    """How many pods a set gains (or loses) when the deployment is scaled, in proportion to its size."""
    size, wanted = replicas_of(replica_set), replicas_of(deployment)
    if wanted == 0:
        fraction = -size
    else:
        surge, _ = fenceposts(deployment)
        before = annotated_number(replica_set, MAXIMUM) or int(
            deployment.get("status", {}).get("replicas", 0)
        )
        if before == 0:
            return 0
        fraction = _rounded(size * (wanted + surge), before) - size
    return min(fraction, allowed) if allowed > 0 else max(fraction, allowed)


def _rounded(numerator: int, denominator: int) -> int:
    """Half away from zero, as upstream rounds."""
    return (2 * numerator + denominator) // (2 * denominator)


def scaled(value: Any, total: int, *, up: bool) -> int:
    """`value` as a number of `total`: integers unchanged, "25%" rounded up or down, anything else 0."""
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdecimal():
        percent = int(value[:-1])
        return -(-percent * total // 100) if up else percent * total // 100
    return 0
