"""A scheduling rule of one's own: prefer nodes with few pods, and keep guests off nodes marked quiet.

Try it:  kuberth up --plugin examples.prefer_quiet_nodes:PreferQuietNodes --config examples/quiet.yaml
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kuberth.api.core import Node, Pod
from kuberth.cluster.nodes import NodeRow
from kuberth.framework import (
    Action,
    ClusterEvent,
    CycleState,
    EnqueueExtensions,
    EventWithHint,
    FilterPlugin,
    Handle,
    Hint,
    Resource,
    ScorePlugin,
    Status,
)


class QuietArgs(msgspec.Struct, frozen=True, rename="camel"):
    """The plugin's arguments in the configuration."""

    quiet_label: str = "quiet"
    points_per_pod: int = 10


class PreferQuietNodes(FilterPlugin, ScorePlugin, EnqueueExtensions):
    name = "PreferQuietNodes"
    args_type = QuietArgs

    def __init__(self, args: QuietArgs | None, handle: Handle) -> None:
        self._args = args or QuietArgs()

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        if self._is_quiet(node.node) and pod.metadata.labels.get("guest") == "true":
            return Status.unresolvable("node(s) are quiet and the pod is a guest")
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        return max(0, 100 - self._args.points_per_pod * node.pod_count)

    def events_to_register(self) -> Iterable[EventWithHint]:
        changed = ClusterEvent(
            Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        )
        return [EventWithHint(changed, self._after_node_change)]

    def _after_node_change(self, pod: Pod, old: object, new: object) -> Hint:
        """A node that is quiet now cannot help a guest that was rejected."""
        return Hint.SKIP if isinstance(new, Node) and self._is_quiet(new) else Hint.QUEUE

    def _is_quiet(self, node: Node) -> bool:
        return node.metadata.labels.get(self._args.quiet_label) == "true"
