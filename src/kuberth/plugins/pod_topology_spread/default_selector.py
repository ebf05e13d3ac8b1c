"""The selector for default constraints: the pods of the same services and controller.

In: a pod, and the services and controllers of its namespace. Out: the selector; empty if nothing selects the
pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from kuberth.api.apps import ReplicaSet, StatefulSet
from kuberth.api.core import Pod, ReplicationController, Service
from kuberth.api.selectors import NOTHING, Requirement, Selector, compile_label_selector, selector_from_set
from kuberth.changes import Changes
from kuberth.cluster.pod_info import selecting_controller
from kuberth.cluster.selected_labels import SelectedLabels
from kuberth.errors import SelectorError
from kuberth.informers.store import Store, Stores

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

    def note_selectors(self, labels: SelectedLabels) -> None:
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
