"""Data of one scheduling context, handed from one extension point to the next.

In: what plugins write. Out: what they read later in the same cycle. It is not valid after the cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from kuberth.cluster.nodes import Nodes
    from kuberth.cluster.pod_info import PodInfo
    from kuberth.framework.equal_pods import EqualPods, KeptRejection
    from kuberth.framework.extension_points import Plugin

T = TypeVar("T")


@runtime_checkable
class Cloneable(Protocol):
    """Data that a what-if may change offers `clone`; data without it is shared between clones."""

    def clone(self) -> Any:
        """A copy that can be changed without changing this one."""
        ...


class StateKey(Generic[T]):
    """A typed key. Two keys of the same name are different keys, so plugins cannot collide by accident."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        """For messages only."""

    def __repr__(self) -> str:
        return f"StateKey({self.name!r})"


class GroupAttempt:
    """One try at placing the pods of a group together. It may come to nothing: every pod is taken back."""

    __slots__ = ("key", "nodes", "preempts", "state")

    def __init__(self, key: str, *, nodes: Nodes | None = None, preempts: bool = True) -> None:
        self.key = key
        """`namespace/name` of the group."""
        self.nodes = nodes
        """The only nodes that its pods may go to, in the order they are tried; None: all."""
        self.preempts = preempts
        """Whether PostFilter plugins are asked about pods that fit nowhere."""
        self.state = CycleState()
        """What plugins keep for all pods of the group, for as long as the attempt lasts."""


class CycleState:
    """The state of one pod's scheduling context."""

    __slots__ = (
        "_data",
        "candidates",
        "equal_pods",
        "group",
        "kept_rejection",
        "missed_pre_filter",
        "placing",
        "pod_info",
        "pods_to_activate",
        "record_plugin_metrics",
        "scores_bare_nodes",
        "skip_filter",
        "skip_pre_bind",
        "skip_score",
        "uses_plans",
    )

    def __init__(self, pod_info: PodInfo | None = None, *, record_plugin_metrics: bool = False) -> None:
        self._data: dict[StateKey[Any], Any] = {}
        self.pod_info = pod_info
        """What is derived from the pod once: its requests and affinity terms."""
        self.group: GroupAttempt | None = None
        """Set while the pod is tried as one of its group; None again when it is placed for good."""
        self.uses_plans = True
        """Whether answers given for equal pods may be used; False asks every plugin."""
        self.equal_pods: EqualPods | None = None
        """What is known for pods equal to this one."""
        self.kept_rejection: KeptRejection | None = None
        """How an equal pod was rejected, if that ended the search for this one."""
        self.candidates: Nodes | None = None
        """The nodes that passed, among which the best is chosen; None before PreScore."""
        self.placing: Callable[[PodInfo, str], PodInfo] | None = None
        """How the pod counts on a node, if a plugin knows of something beside what it asks for."""
        self.record_plugin_metrics = record_plugin_metrics
        """Whether this is one of the cycles whose plugins are timed one by one."""
        self.missed_pre_filter: frozenset[str] = frozenset()
        """Plugins that were not asked at PreFilter, because one before them said that no node will do."""
        self.skip_filter: frozenset[str] = frozenset()
        """Plugins whose PreFilter said Skip."""
        self.skip_score: frozenset[str] = frozenset()
        """Plugins whose PreScore said Skip."""
        self.skip_pre_bind: frozenset[str] = frozenset()
        """Plugins whose pre-flight said there is nothing to do before the binding."""
        self.scores_bare_nodes = False
        """Whether nodes are scored as if they held no pods and no images: so kube-scheduler sees nodes that
        an extender's filter gave back as objects. What pods ask for in sum is zero in the table then."""
        self.pods_to_activate: dict[str, Any] = {}
        """Pods (by namespace/name) that a plugin wants tried again once this one is placed."""

    def placed(self, info: PodInfo, node_name: str) -> PodInfo:
        """The pod as it counts on a node."""
        return info.placed_on(node_name) if self.placing is None else self.placing(info, node_name)

    def write(self, key: StateKey[T], value: T) -> None:
        """Keep a value for the points that follow in this cycle."""
        self._data[key] = value

    def read(self, key: StateKey[T]) -> T:
        """The value under `key`; KeyError when no one wrote it in this cycle."""
        try:
            value: T = self._data[key]
            return value
        except KeyError:
            raise KeyError(f"nothing was written under {key.name!r} in this scheduling cycle") from None

    def get(self, key: StateKey[T]) -> T | None:
        """The value under `key`; None when no one wrote it in this cycle."""
        return self._data.get(key)

    def for_equal_pods(self, plugin: Plugin, key: StateKey[T], make: Callable[[], T]) -> T:
        """What `make` gave when this was first called for a pod equal to this one; otherwise what it gives.

        For a plugin that states what it reads. The value is made again when one of its `versions` has grown;
        anything else that it depends on the plugin has to follow itself.
        """
        if self.equal_pods is None or plugin.name not in self.equal_pods.signed:
            return make()
        memory: dict[StateKey[T], T] = self.equal_pods.memory
        if key not in memory:
            memory[key] = make()
        return memory[key]

    def restart_without_plans(self) -> None:
        """Forget what plugins prepared; from now on every plugin is asked."""
        self._data.clear()
        self.uses_plans, self.equal_pods, self.placing = False, None, None
        self.missed_pre_filter = self.skip_filter = self.skip_score = frozenset()

    def written(self) -> dict[StateKey[Any], Any]:
        """A copy of everything that was written so far."""
        return dict(self._data)

    def write_all(self, values: Mapping[StateKey[Any], Any]) -> None:
        """Write many values at once."""
        self._data.update(values)

    def delete(self, key: StateKey[Any]) -> None:
        """Take a value back, if it is there."""
        self._data.pop(key, None)

    def clone(self) -> CycleState:
        """An independent copy for a what-if: values that offer `clone` are cloned, others are shared.

        It shares nothing with equal pods: what is true in a what-if is not to be remembered.
        """
        copy = CycleState(self.pod_info, record_plugin_metrics=self.record_plugin_metrics)
        copy._data = {
            key: value.clone() if isinstance(value, Cloneable) else value for key, value in self._data.items()
        }
        copy.uses_plans = self.uses_plans
        copy.group = self.group
        copy.placing = self.placing
        copy.candidates = self.candidates
        copy.scores_bare_nodes = self.scores_bare_nodes
        copy.skip_filter = self.skip_filter
        copy.skip_score = self.skip_score
        copy.skip_pre_bind = self.skip_pre_bind
        copy.missed_pre_filter = self.missed_pre_filter
        copy.pods_to_activate = self.pods_to_activate
        return copy
