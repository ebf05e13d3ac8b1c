"""A question (which pod, which cluster, which configuration), and the evaluation of its pod.

In: objects and a configuration. Out: a `PodEvaluation`, which evaluates the pod with and without edits. A pod
with a node is evaluated as if it had none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from msgspec.structs import replace as with_fields

from kuberth.api.core import Node, Pod
from kuberth.api.resource import ResourceClaim
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import FeatureGates, KubeSchedulerConfiguration, default_configuration
from kuberth.errors import ConfigError
from kuberth.explaining.cluster_copy import ClusterCopy
from kuberth.explaining.edits import Edit, EditedCluster, released_claims
from kuberth.framework.registry import Registry
from kuberth.framework.status import Status

GANGS: Final = "GangScheduling"
"""The plugin that schedules gangs."""


class PermitHold(NamedTuple):
    """A plugin that holds a pod on Permit. Times are seconds since the epoch."""

    plugin: str
    since: float
    until: float
    """When the pod is rejected if the plugin does not allow it."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The pod's state in a running scheduler. Times are seconds since the epoch."""

    queue: str
    """active, backoff, unschedulable or gated; `in flight` during an attempt, `permit` while Permit waits."""
    attempts: int = 0
    since: float | None = None
    """When it returned from its last attempt, or was created."""
    next: float | None = None
    """When it is retried if no event requeues it before; None: only after an event."""
    rejected_by: tuple[str, ...] = ()
    """Plugins whose events requeue it."""
    node: str = ""
    """The node that it is assumed on."""
    held_by: tuple[PermitHold, ...] = ()
    """The plugins that hold it in Permit."""


@dataclass(frozen=True, slots=True)
class Question:
    """The question why a pod is pending, or why it was placed where it is."""

    pod: Pod
    objects: Sequence[Any]
    """The cluster: nodes, pods and other kinds that plugins read. It may contain the pod itself."""
    config: KubeSchedulerConfiguration | None = None
    registry: Registry | None = None
    feature_gates: FeatureGates | None = None
    waiting: Waiting | None = None
    """Set by a running scheduler that has the pod in its queue."""
    refusal: str = ""
    """Why the API server rejects the pods of the workload that the pod represents."""
    notes: tuple[str, ...] = ()
    """Remarks about the question that the answer repeats."""

    @property
    def configuration(self) -> KubeSchedulerConfiguration:
        """The configuration to use: the default one unless another is given."""
        return self.config or default_configuration(self.feature_gates)


class PodEvaluation:
    """Evaluates the pod in the cluster, with and without edits. Make one with `evaluation_of`."""

    def __init__(self, question: Question, cluster: ClusterCopy, *, profile: str, is_there: bool) -> None:
        self.profile = profile
        self.node = question.pod.spec.node_name if is_there else ""
        """The pod's node. A pod that is not in the cluster can only request a node by its name."""
        self.pod = _unplaced(question.pod) if is_there else question.pod
        """The pod as if it had no node."""
        self.evaluator = cluster.evaluator
        self.evaluator.runner = self.evaluator.runners[profile]
        self.edited = EditedCluster(self.pod, self.node_named)
        self._tried: dict[frozenset[Edit], bool] = {}

    def node_named(self, name: str) -> Node | None:
        """The unchanged node of a name."""
        return self.evaluator.stores.of(Node).get(name)

    def pods_of(self, node: str) -> Iterable[PodInfo]:
        """The pods on a node, except the pod in question."""
        row = self.evaluator.cluster.row_of(node)
        return () if row is None else self.evaluator.cluster.pods_at(row)

    def other_pods(self, keys: Iterable[str]) -> list[Pod]:
        """The existing pods with these keys (namespace/name), except the pod in question."""
        found = map(self.evaluator.stores.of(Pod).get_by_key, keys)
        return [pod for pod in found if pod is not None]

    @property
    def schedules_gangs(self) -> bool:
        """Whether the profile schedules gangs."""
        return GANGS in self.evaluator.runner.profile.plugins

    @property
    def tries(self) -> int:
        """The number of distinct sets of changes tried so far."""
        return len(self._tried)

    def gate(self, pod: Pod) -> Status | None:
        """The status of the PreEnqueue plugin that gates the pod; None if none does."""
        status = self.evaluator.runner.run_pre_enqueue(pod)
        return None if status.is_success else status

    def helps(self, edits: Iterable[Edit]) -> bool:
        """Whether a node is feasible after these changes, which are then undone."""
        edits = tuple(edits)
        known = frozenset(edits)
        if known not in self._tried:
            self._tried[known] = self._try(edits)
        return self._tried[known]

    def _try(self, edits: Iterable[Edit]) -> bool:
        edited = self.edited
        for edit in edits:
            edited = edit.apply(edited)
        if self.gate(edited.pod) is not None:
            return False
        gone = self.other_pods(sorted(edited.gone))
        before = [(node, self.node_named(name)) for name, node in edited.nodes.items()]
        claims = released_claims(self.evaluator.stores.of(ResourceClaim), edited.gone)
        self.evaluator.remove(*gone)
        self.evaluator.add(*(new for _old, new in claims))
        self.evaluator.add(*(node for node, _old in before))
        try:
            return bool(self.evaluator.feasible(edited.pod))
        finally:
            for node, old in before:
                if old is None:
                    self.evaluator.remove(node)
                else:
                    self.evaluator.add(old)
            self.evaluator.add(*gone, *(old for old, _new in claims))


@contextmanager
def evaluation_of(question: Question, cluster: ClusterCopy | None = None) -> Iterator[PodEvaluation]:
    """Update the copy, or create one, and evaluate the pod on it while the block lasts."""
    config = question.configuration
    names = [profile.scheduler_name for profile in config.profiles]
    wanted = question.pod.spec.scheduler_name or names[0]
    if wanted not in names:
        if question.config is not None:
            raise ConfigError(
                f"the pod's scheduler is {wanted!r}, but the configuration has profiles only for "
                f"{', '.join(names)}; give the configuration of that scheduler with --config"
            )
        wanted = names[0]
    if cluster is None:
        cluster = ClusterCopy(config, registry=question.registry, feature_gates=question.feature_gates)
    cluster.update(question.objects)
    with cluster.without(question.pod) as is_there:
        evaluation = PodEvaluation(question, cluster, profile=wanted, is_there=is_there)
        with cluster.pending(evaluation.pod):
            yield evaluation


def _unplaced(pod: Pod) -> Pod:
    if not pod.spec.node_name:
        return pod
    return with_fields(pod, spec=with_fields(pod.spec, node_name=""))
