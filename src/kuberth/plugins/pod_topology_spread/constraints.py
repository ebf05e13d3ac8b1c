"""The topology spread constraints of a pod: its own, or the defaults with a computed selector.

In: a pod and the plugin's arguments. Out: compiled constraints, hard or soft; and the nodes that count for a
constraint, according to its node inclusion policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from kuberth.api.apps import ReplicaSet, StatefulSet
from kuberth.api.core import Pod, ReplicationController, Service, TopologySpreadConstraint
from kuberth.api.selectors import (
    NOTHING,
    Requirement,
    Selector,
    compile_label_selector,
    required_node_affinity,
    selector_from_set,
)
from kuberth.api.selectors.compiled_cache import CompiledCache
from kuberth.api.taints import KeyedTolerations
from kuberth.api.well_known import HOSTNAME, ZONE
from kuberth.changes import Changes
from kuberth.cluster.arrays import Mask
from kuberth.cluster.labels import ABSENT, LabelColumn
from kuberth.cluster.pod_info import PodMatcher, selecting_controller
from kuberth.cluster.selected_labels import SelectedLabels
from kuberth.cluster.selection import by_taints, meets_required_affinity
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.terms import Tally
from kuberth.config.plugin_args import PodTopologySpreadArgs
from kuberth.errors import SelectorError
from kuberth.framework.inputs import Versioned
from kuberth.informers.store import Store, Stores

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
SYSTEM: Final = "System"

SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SOFT, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SOFT, max_skew=5),
)


_Constraints = tuple[TopologySpreadConstraint, ...]


class Constraint(NamedTuple):
    """How evenly the pods that `selector` matches must be spread over the values of `topology_key`."""

    topology_key: str
    max_skew: int
    min_domains: int
    selector: Selector
    honors_affinity: bool
    """Whether only nodes count that match the pod's node selector and affinity."""
    honors_taints: bool
    """Whether only nodes count whose taints the pod tolerates."""


class ConstraintReader:
    """Compiles constraints of pods; raises `SelectorError` for an invalid one."""

    def __init__(
        self,
        args: PodTopologySpreadArgs,
        stores: Stores,
        *,
        inclusion_policies: bool,
        match_label_keys: bool,
    ) -> None:
        self.system_defaults = args.defaulting_type == SYSTEM
        self._defaults = SYSTEM_DEFAULTS if self.system_defaults else args.default_constraints
        # Services and controllers are only watched if default constraints need them.
        self._default_selector = DefaultSelector(stores) if self._defaults else None
        self._inclusion_policies = inclusion_policies
        self._match_label_keys = match_label_keys
        self._cache = CompiledCache[tuple[Constraint, ...]]()

    @property
    def versions(self) -> Sequence[Versioned]:
        """What constraints depend on besides the pod."""
        return () if self._default_selector is None else self._default_selector.versions

    def register_defaults(self, labels: SelectedLabels) -> None:
        """Register the selectors of default constraints; a pod's own are registered with the pod."""
        if self._default_selector is not None:
            self._default_selector.register_selectors(labels)

    def hard(self, pod: Pod) -> tuple[Constraint, ...]:
        return self._constraints(pod, HARD)

    def hard_keys(self, pod: Pod) -> set[str]:
        """The topology keys of the hard constraints; no selector of the pod is compiled."""
        own = pod.spec.topology_spread_constraints
        if own:
            return {each.topology_key for each in own if each.when_unsatisfiable == HARD}
        return {each.topology_key for each in self.hard(pod)}

    def soft(self, pod: Pod) -> tuple[Constraint, ...]:
        return self._constraints(pod, SOFT)

    def _constraints(self, pod: Pod, action: str) -> tuple[Constraint, ...]:
        own = pod.spec.topology_spread_constraints
        if own:
            return self._own(own, pod, action)
        if self._default_selector is None:
            return ()
        defaults = self._compiled(self._defaults, pod, action)
        if not defaults:
            return ()
        selector = self._default_selector.of(pod)
        if selector.empty:
            return ()
        return tuple(constraint._replace(selector=selector) for constraint in defaults)

    def _own(self, own: _Constraints, pod: Pod, action: str) -> tuple[Constraint, ...]:
        labels = pod.metadata.labels
        keys = {key for each in own for key in each.match_label_keys} if self._match_label_keys else ()
        beside = action, tuple(sorted((key, labels[key]) for key in keys if key in labels))
        compiled = self._cache.get(own, beside)
        if compiled is None:
            compiled = self._compiled(own, pod, action)
            length = len(own) + sum(each.selector.length for each in compiled)
            self._cache.put(own, beside, compiled, length=length)
        return compiled

    def _compiled(self, constraints: _Constraints, pod: Pod, action: str) -> tuple[Constraint, ...]:
        return tuple(
            self._compile(constraint, pod)
            for constraint in constraints
            if constraint.when_unsatisfiable == action
        )

    def _compile(self, constraint: TopologySpreadConstraint, pod: Pod) -> Constraint:
        selector = compile_label_selector(constraint.label_selector)
        if self._match_label_keys and constraint.match_label_keys:
            labels = pod.metadata.labels
            same = {key: labels[key] for key in constraint.match_label_keys if key in labels}
            selector = selector.with_requirements(selector_from_set(same).requirements)
        affinity = taints = None
        if self._inclusion_policies:
            affinity, taints = constraint.node_affinity_policy, constraint.node_taints_policy
        return Constraint(
            topology_key=constraint.topology_key,
            max_skew=constraint.max_skew,
            min_domains=1 if constraint.min_domains is None else constraint.min_domains,
            selector=selector,
            honors_affinity=affinity is None or affinity == HONOR,
            honors_taints=taints == HONOR,
        )


T = TypeVar("T")


class DefaultSelector:
    """Computes the selector for a pod."""

    def __init__(self, stores: Stores) -> None:
        self._services = stores.of(Service)
        self._replication_controllers = stores.of(ReplicationController)
        self._replica_sets = stores.of(ReplicaSet)
        self._stateful_sets = stores.of(StatefulSet)
        self._sets: dict[str, Store[ReplicaSet] | Store[StatefulSet]] = {
            "ReplicaSet": self._replica_sets,
            "StatefulSet": self._stateful_sets,
        }

    @property
    def versions(self) -> tuple[Changes[str], ...]:
        """Everything that the result depends on besides the pod."""
        return (
            self._services.changes,
            self._replication_controllers.changes,
            *(store.changes for store in self._sets.values()),
        )

    def register_selectors(self, labels: SelectedLabels) -> None:
        """Register the selectors of all services and controllers, now and whenever one changes."""
        _follow(self._services, labels, lambda found: selector_from_set(found.spec.selector))
        _follow(self._replication_controllers, labels, lambda found: selector_from_set(found.spec.selector))
        _follow(self._replica_sets, labels, _selector_of_set)
        _follow(self._stateful_sets, labels, _selector_of_set)

    def of(self, pod: Pod) -> Selector:
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        demanded: dict[str, str] = {}
        for service in self._services.in_namespace(namespace):
            if _selects(service.spec.selector, labels):
                demanded.update(service.spec.selector)
        owner = selecting_controller(pod)
        if owner is None:
            return selector_from_set(demanded)
        kind, name = owner
        if kind == "ReplicationController":
            found = self._replication_controllers.get(name, namespace=namespace)
            if found is not None:
                demanded.update(found.spec.selector)
        selector = selector_from_set(demanded)
        return selector.with_requirements(self._set_requirements(kind, name, namespace))

    def _set_requirements(self, kind: str, name: str, namespace: str) -> tuple[Requirement, ...]:
        store = self._sets.get(kind)
        found = store.get(name, namespace=namespace) if store is not None else None
        return () if found is None else _selector_of_set(found).requirements


def _selector_of_set(found: ReplicaSet | StatefulSet) -> Selector:
    try:
        return compile_label_selector(found.spec.selector)
    except SelectorError:
        # The controller is invalid, not the pod: as upstream, only the services count.
        return NOTHING


def _follow(store: Store[T], labels: SelectedLabels, selector_of: Callable[[T], Selector]) -> None:
    def note(keys: frozenset[str] | None) -> None:
        for key in store.keys() if keys is None else keys:
            if (found := store.get_by_key(key)) is not None:
                labels.note(selector_of(found).requirements)

    labels.follow(store.changes, note)


def _selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether a service's selector matches the labels; without a selector it matches no pod."""
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def counted_pods(constraint: Constraint, namespace: str, table: ClusterTable) -> Tally:
    """The pods of the namespace that the constraint counts.

    As upstream, an empty selector accepts every pod but counts none.
    """
    selector = NOTHING if constraint.selector.empty else constraint.selector
    matcher = PodMatcher(frozenset((namespace,)), NOTHING, selector)
    return table.terms.tally(matcher, with_terminating=False)


class Inclusion:
    """The node inclusion policies for one pod, each evaluated at most once."""

    def __init__(self, pod: Pod, table: ClusterTable, *, comparison_operators: bool) -> None:
        self.table = table
        self._pod = pod
        self._comparison_operators = comparison_operators
        self._affinity: Mask | None = None
        self._taints: Mask | None = None

    def mask(self, constraint: Constraint) -> Mask | None:
        """Rows that the constraint's policies include."""
        accepted = self._accepted_by_affinity() if constraint.honors_affinity else None
        if not constraint.honors_taints:
            return accepted
        tolerated = self._tolerated()
        return tolerated if accepted is None else accepted & tolerated

    def has_all(self, labels: Iterable[LabelColumn]) -> Mask:
        """Rows with all of the labels."""
        first, *others = labels
        rows = slice(0, self.table.slots)
        mask: Mask = first.ids[rows] != ABSENT
        for label in others:
            mask &= label.ids[rows] != ABSENT
        return mask

    def _accepted_by_affinity(self) -> Mask | None:
        spec = self._pod.spec
        has_node_affinity = spec.affinity is not None and spec.affinity.node_affinity is not None
        if not spec.node_selector and not has_node_affinity:
            return None
        if self._affinity is None:
            # An invalid term accepts no node here; NodeAffinity rejects the pod for it.
            required = required_node_affinity(self._pod)
            self._affinity = meets_required_affinity(self.table.all_nodes(), required)
        return self._affinity

    def _tolerated(self) -> Mask:
        if self._taints is None:
            tolerations = KeyedTolerations(
                self._pod.spec.tolerations, comparison_operators=self._comparison_operators
            )
            self._taints = by_taints(self.table.all_nodes(), tolerations.cover_all) != 0
        return self._taints
