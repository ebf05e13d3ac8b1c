"""Queueing hints for pods rejected by hard topology spread constraints.

In: the pod and an object before and after. Out: whether the change may help the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kuberth.api.core import Node, Pod
from kuberth.framework.hint_objects import before_and_after, changed_node_labels
from kuberth.plugins.hints import has_node, is_same_pod
from kuberth.plugins.pod_topology_spread.constraints import Constraint, ConstraintReader


class SpreadHints:
    def __init__(self, reader: ConstraintReader) -> None:
        self._reader = reader

    def pod_change_helps(self, pod: Pod, before: Pod | None, after: Pod | None) -> bool:
        changed = [each for each in (before, after) if each is not None]
        if not all(_takes_part(each, pod) for each in changed):
            return False
        constraints = self._reader.hard(pod)
        if before is not None and after is not None:
            return _update_helps(pod, before, after, constraints)
        return any(_matches(constraint, each) for each in changed for constraint in constraints)

    def topology_keys(self, pod: Pod) -> Iterable[str]:
        """The node labels whose change may help the pod."""
        return self._reader.hard_keys(pod)

    def changed_labels(self, old: object, new: object) -> Iterable[str] | None:
        """The label keys that changed; None if taints changed too, which may help any pod."""
        before, after = before_and_after(Node, old, new)
        if before is None or after is None or before.spec.taints != after.spec.taints:
            return None
        return changed_node_labels(before, after)

    def node_change_helps(self, pod: Pod, before: Node | None, after: Node | None) -> bool:
        constraints = self._reader.hard(pod)
        counted = [
            _has_keys(node.metadata.labels, constraints) for node in (before, after) if node is not None
        ]
        if before is None or after is None or counted[0] != counted[1]:
            return any(counted)
        return counted[1] and (
            before.spec.taints != after.spec.taints
            or any(
                before.metadata.labels.get(constraint.topology_key, "")
                != after.metadata.labels.get(constraint.topology_key, "")
                for constraint in constraints
            )
        )


def _update_helps(pod: Pod, before: Pod, after: Pod, constraints: Iterable[Constraint]) -> bool:
    if (
        is_same_pod(pod, after)
        and before.spec.tolerations != after.spec.tolerations
        and any(constraint.honors_taints for constraint in constraints)
    ):
        return True
    return any(_matches(constraint, before) != _matches(constraint, after) for constraint in constraints)


def _takes_part(changed: Pod, pod: Pod) -> bool:
    """Whether a change of this pod can change the spread around `pod`."""
    return is_same_pod(changed, pod) or (
        has_node(changed) and changed.metadata.namespace == pod.metadata.namespace
    )


def _matches(constraint: Constraint, pod: Pod) -> bool:
    return constraint.selector.matches(pod.metadata.labels)


def _has_keys(labels: Mapping[str, str], constraints: Iterable[Constraint]) -> bool:
    return all(constraint.topology_key in labels for constraint in constraints)
