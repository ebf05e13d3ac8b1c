"""The rules of gangs, for the judge: a gang is bound once its minimum is placed.

In: plain JSON trees of pods and their groups. Out: whether what is pending could be placed together. Nothing
here is imported from the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tests.universe.rules import broken_rules, has_license
from tests.universe.trees import State, Tree, namespace

_CHOOSY: Final = ("affinity", "topologySpreadConstraints", "volumes", "resourceClaims")


def group_key(pod: Tree) -> str:
    """Of the pod's group; empty: it has none."""
    group = pod["spec"].get("schedulingGroup")
    return f"{namespace(pod)}/{group['podGroupName']}" if group else ""


def min_count(pod: Tree, groups: Mapping[str, Tree]) -> int:
    """How many pods of its group have to be placed with the pod; 1 without a gang."""
    policy = groups.get(group_key(pod), {"spec": {}})["spec"].get("schedulingPolicy", {})
    return int(policy.get("gang", {}).get("minCount", 1))


def gang_fits(pod: Tree, pods: Iterable[Tree], state: State) -> bool:
    """Whether the pod's gang can surely reach its minimum; True for a pod without one.

    Pods that are alike and ask for nothing of each other take the same number of places in whatever order
    they are placed. Of others nothing is said.
    """
    groups = state.others("PodGroup")
    group = group_key(pod)
    if not group:
        return True
    if group not in groups:
        return False
    members = [each for each in pods if group_key(each) == group]
    wanted = min_count(pod, groups)
    placed = sum(1 for each in members if each["spec"].get("nodeName"))
    pending = [
        each
        for each in members
        if not (
            each["spec"].get("nodeName")
            or "deletionTimestamp" in each["metadata"]
            or each["spec"].get("schedulingGates")
            or not has_license(each, state)
        )
    ]
    if len(members) < wanted:
        return False
    if placed >= wanted:
        return True
    first = {**pending[0]["spec"], "nodeName": ""} if pending else {}
    if any(part in first for part in _CHOOSY) or any(
        {**each["spec"], "nodeName": ""} != first for each in pending
    ):
        return False
    for each in pending:
        name = next((name for name in sorted(state.nodes) if not broken_rules(each, name, state)), None)
        if name is None:
            break
        state = state.with_pod(each, name)
        placed += 1
    return placed >= wanted
