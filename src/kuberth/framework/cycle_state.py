"""Data of one scheduling cycle, passed from one extension point to the next.

In: values that plugins write. Out: values that plugins read later in the same cycle. It is not valid after
the cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from kuberth.cluster.nodes import Nodes
    from kuberth.cluster.pod_info import PodInfo
    from kuberth.framework.equal_pods import EqualPods, KeptRejection
    from kuberth.framework.extension_points import Plugin

T = TypeVar("T")


@runtime_checkable
class Cloneable(Protocol):
    """State data with `clone`, for what-ifs that change it; other data is shared between clones."""

    def clone(self) -> Any:
        """A copy that can be changed independently."""
        ...


class StateKey(Generic[T]):
    """A typed key. Keys with equal names are still different keys, so plugins cannot collide by accident."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        """The name, for messages only."""

    def __repr__(self) -> str:
        return f"StateKey({self.name!r})"


@dataclass(slots=True, eq=False, repr=False)
class GroupAttempt:
    """One attempt to place the pods of a group together. If it fails, all pods are removed again."""

    key: str
    """`namespace/name` of the group."""
    nodes: Nodes | None = field(default=None, kw_only=True)
    """The only nodes on which its pods may be placed, in the order in which they are tried; None: all."""
    preempts: bool = field(default=True, kw_only=True)
    """Whether PostFilter plugins run for pods that fit nowhere."""
    state: CycleState = field(default_factory=lambda: CycleState(), init=False)
    """Data of plugins for all pods of the group, valid during the attempt."""


@dataclass(slots=True, eq=False, repr=False)
class CycleState:
    """The state of one scheduling cycle."""

    _data: dict[StateKey[Any], Any] = field(default_factory=dict, init=False)
    pod_info: PodInfo | None = None
    """Values derived from the pod, such as its requests and affinity terms."""
    group: GroupAttempt | None = field(default=None, init=False)
    """Set while the pod is tried with its group; None again when it is placed permanently."""
    uses_plans: bool = field(default=True, init=False)
    """Whether answers given for equal pods may be reused; if False, every plugin is called."""
    equal_pods: EqualPods | None = field(default=None, init=False)
    """Results that equal pods share."""
    kept_rejection: KeptRejection | None = field(default=None, init=False)
    """The rejection of an equal pod, if it ended the search for this one."""
    candidates: Nodes | None = field(default=None, init=False)
    """The feasible nodes, from which the best is chosen; None before PreScore."""
    placing: Callable[[PodInfo, str], PodInfo] | None = field(default=None, init=False)
    """How the pod counts on a node, if a plugin adds to its requests."""
    record_plugin_metrics: bool = field(default=False, kw_only=True)
    """Whether this cycle measures the time of each plugin."""
    missed_pre_filter: frozenset[str] = field(default=frozenset(), init=False)
    """Plugins that PreFilter did not call, because an earlier plugin rejected all nodes."""
    skip_filter: frozenset[str] = field(default=frozenset(), init=False)
    """Plugins whose PreFilter returned Skip."""
    skip_score: frozenset[str] = field(default=frozenset(), init=False)
    """Plugins whose PreScore returned Skip."""
    skip_pre_bind: frozenset[str] = field(default=frozenset(), init=False)
    """Plugins whose PreBind pre-flight returned Skip."""
    scores_bare_nodes: bool = field(default=False, init=False)
    """Whether nodes are scored as if they had no pods and no images, as in kube-scheduler for nodes that
    an extender's filter returned as objects. The sums of requests in the table are then zero."""
    pods_to_activate: dict[str, Any] = field(default_factory=dict, init=False)
    """Pods (by namespace/name) that are retried once this pod is placed."""

    def placed(self, info: PodInfo, node_name: str) -> PodInfo:
        """The pod with the requests that count on a node."""
        return info.placed_on(node_name) if self.placing is None else self.placing(info, node_name)

    def write(self, key: StateKey[T], value: T) -> None:
        """Store a value for later extension points of this cycle."""
        self._data[key] = value

    def read(self, key: StateKey[T]) -> T:
        """The value under `key`; KeyError if none was written in this cycle."""
        try:
            value: T = self._data[key]
            return value
        except KeyError:
            raise KeyError(f"nothing was written under {key.name!r} in this scheduling cycle") from None

    def get(self, key: StateKey[T]) -> T | None:
        """The value under `key`; None if none was written in this cycle."""
        return self._data.get(key)

    def for_equal_pods(self, plugin: Plugin, key: StateKey[T], make: Callable[[], T]) -> T:
        """The result of `make`, cached for all pods that are equal to this one.

        For plugins that state their inputs. `make` is called again when one of its `versions` has grown; the
        plugin itself must handle everything else on which the value depends.
        """
        if self.equal_pods is None or plugin.name not in self.equal_pods.signed:
            return make()
        memory: dict[StateKey[T], T] = self.equal_pods.memory
        if key not in memory:
            memory[key] = make()
        return memory[key]

    def restart_without_plans(self) -> None:
        """Discard the data of plugins and call every plugin from now on."""
        self._data.clear()
        self.uses_plans, self.equal_pods, self.placing = False, None, None
        self.missed_pre_filter = self.skip_filter = self.skip_score = frozenset()

    def written(self) -> dict[StateKey[Any], Any]:
        """A copy of everything that was written so far."""
        return dict(self._data)

    def write_all(self, values: Mapping[StateKey[Any], Any]) -> None:
        """Store several values."""
        self._data.update(values)

    def delete(self, key: StateKey[Any]) -> None:
        """Remove a value, if it exists."""
        self._data.pop(key, None)

    def clone(self) -> CycleState:
        """An independent copy for a what-if: values with `clone` are cloned, others are shared.

        It shares nothing with equal pods, because results in a what-if must not be reused.
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
