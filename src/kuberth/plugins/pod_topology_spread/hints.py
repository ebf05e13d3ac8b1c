"""Queueing hints for pods rejected by hard topology spread constraints.

In: the pod and an object before and after. Out: whether to retry the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kuberth.api.core import Node, Pod
from kuberth.framework.cluster_events import Hint
from kuberth.framework.hint_objects import before_and_after, changed_node_labels
from kuberth.plugins.pod_topology_spread.constraints import Constraint, ConstraintReader


class SpreadHints:
    def __init__(self, reader: ConstraintReader) -> None:
        self._reader = reader

    def after_pod_change(self, pod: Pod, old: object, new: object) -> Hint:
        before, after = before_and_after(Pod, old, new)
        if any(changed is not None and not _takes_part(changed, pod) for changed in (after, before)):
            return Hint.SKIP
        constraints = self._reader.hard(pod)
        if before is not None and after is not None:
            return _after_update(pod, before, after, constraints)
        return _queue_if(
            _matches(constraint, changed)
            for changed in (before, after)
            if changed is not None
            for constraint in constraints
        )

    def topology_keys(self, pod: Pod) -> Iterable[str]:
        """The node labels whose change may help the pod."""
        return self._reader.hard_keys(pod)

    def changed_labels(self, old: object, new: object) -> Iterable[str] | None:
        """The label keys that changed; None if taints changed too, which may help any pod."""
        before, after = before_and_after(Node, old, new)
        if before is None or after is None or before.spec.taints != after.spec.taints:
            return None
        return changed_node_labels(before, after)

    def after_node_change(self, pod: Pod, old: object, new: object) -> Hint:
        before, after = before_and_after(Node, old, new)
        constraints = self._reader.hard(pod)
        counted = [
            _has_keys(node.metadata.labels, constraints) for node in (before, after) if node is not None
        ]
        if before is None or after is None:
            return _queue_if(counted)
        if counted[0] != counted[1]:
            return Hint.QUEUE
        changed = before.spec.taints != after.spec.taints or any(
            before.metadata.labels.get(constraint.topology_key, "")
            != after.metadata.labels.get(constraint.topology_key, "")
            for constraint in constraints
        )
        return _queue_if([counted[1] and changed])


def _after_update(pod: Pod, before: Pod, after: Pod, constraints: Iterable[Constraint]) -> Hint:
    if (
        pod.metadata.uid == after.metadata.uid
        and before.spec.tolerations != after.spec.tolerations
        and any(constraint.honors_taints for constraint in constraints)
    ):
        return Hint.QUEUE
    return _queue_if(
        _matches(constraint, before) != _matches(constraint, after) for constraint in constraints
    )


def _takes_part(changed: Pod, pod: Pod) -> bool:
    """Whether a change of this pod can change the spread around `pod`."""
    if changed.metadata.uid == pod.metadata.uid:
        return True
    has_node = bool(changed.spec.node_name or changed.status.nominated_node_name)
    return has_node and changed.metadata.namespace == pod.metadata.namespace


def _matches(constraint: Constraint, pod: Pod) -> bool:
    return constraint.selector.matches(pod.metadata.labels)


def _has_keys(labels: Mapping[str, str], constraints: Iterable[Constraint]) -> bool:
    return all(constraint.topology_key in labels for constraint in constraints)


def _queue_if(reasons: Iterable[bool]) -> Hint:
    return Hint.QUEUE if any(reasons) else Hint.SKIP
