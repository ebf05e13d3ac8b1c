"""A question: which pod, in which cluster, under which configuration; and the judge that answers it.

In: objects and a configuration. Out: a `Judge`, which evaluates the pod as it is and after edits. A pod that
has a node is judged as if it had none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace as with_fields

from kuberth.api.core import Node, Pod
from kuberth.config import FeatureGates, KubeSchedulerConfiguration, default_configuration
from kuberth.errors import ConfigError
from kuberth.explaining.cluster_copy import ClusterCopy
from kuberth.explaining.edits import Edit, Scene
from kuberth.framework.registry import Registry
from kuberth.framework.status import Status


@dataclass(frozen=True, slots=True)
class Waiting:
    """Where the pod waits in a running scheduler. Times are seconds since the epoch."""

    queue: str
    """active, backoff, unschedulable or gated, as queues call them; `in flight` while it is being tried."""
    attempts: int = 0
    since: float | None = None
    """When it came back from its last attempt, or came at all."""
    next: float | None = None
    """When it is tried at the latest, if nothing happens before; None: not before something happens."""
    rejected_by: tuple[str, ...] = ()
    """Whose events bring it back."""


@dataclass(frozen=True, slots=True)
class Question:
    """Why does this pod wait, or why is it where it is?"""

    pod: Pod
    objects: Sequence[Any]
    """The cluster: nodes, pods and whatever plugins read. The pod itself may be among them."""
    config: KubeSchedulerConfiguration | None = None
    registry: Registry | None = None
    feature_gates: FeatureGates | None = None
    waiting: Waiting | None = None
    """Set if a scheduler runs that knows it."""
    notes: tuple[str, ...] = ()
    """Remarks about the question that the answer repeats."""

    @property
    def configuration(self) -> KubeSchedulerConfiguration:
        """The configuration to judge by: the default one unless another is given."""
        return self.config or default_configuration(self.feature_gates)


class Judge:
    """The rules over the cluster, ready to be asked about the pod. Use it with `judge_of`."""

    def __init__(self, question: Question, cluster: ClusterCopy, *, profile: str, is_there: bool) -> None:
        self.profile = profile
        self.node = question.pod.spec.node_name if is_there else ""
        """The node that the pod has. A pod that is not in the cluster can only request a node by its name."""
        self.pod = _unplaced(question.pod) if is_there else question.pod
        """The pod as if it had no node."""
        self.evaluator = cluster.evaluator
        self.evaluator.runner = self.evaluator.runners[profile]
        self.scene = Scene(self.pod, self._node)
        self._tried: dict[frozenset[Edit], bool] = {}

    def _node(self, name: str) -> Node | None:
        return self.evaluator.stores.of(Node).get(name)

    def other_pods(self, keys: Iterable[str]) -> list[Pod]:
        """Those of the pods with these keys (namespace/name) that exist, the pod in question excepted."""
        found = map(self.evaluator.stores.of(Pod).get_by_key, keys)
        return [pod for pod in found if pod is not None]

    @property
    def tries(self) -> int:
        """How many different changes were tried so far."""
        return len(self._tried)

    def gate(self, pod: Pod) -> Status | None:
        """Who keeps the pod from being tried at all; None: nobody."""
        status = self.evaluator.runner.run_pre_enqueue(pod)
        return None if status.is_success else status

    def frees(self, edits: Iterable[Edit]) -> bool:
        """Whether some node takes the pod once these changes are made. Nothing stays changed."""
        edits = tuple(edits)
        known = frozenset(edits)
        if known not in self._tried:
            self._tried[known] = self._try(edits)
        return self._tried[known]

    def _try(self, edits: Iterable[Edit]) -> bool:
        scene = self.scene
        for edit in edits:
            scene = edit.apply(scene)
        if self.gate(scene.pod) is not None:
            return False
        gone = self.other_pods(sorted(scene.gone))
        before = [(node, self._node(name)) for name, node in scene.nodes.items()]
        self.evaluator.remove(*gone)
        self.evaluator.add(*(node for node, _old in before))
        try:
            return bool(self.evaluator.feasible(scene.pod))
        finally:
            for node, old in before:
                if old is None:
                    self.evaluator.remove(node)
                else:
                    self.evaluator.add(old)
            self.evaluator.add(*gone)


@contextmanager
def judge_of(question: Question, cluster: ClusterCopy | None = None) -> Iterator[Judge]:
    """Bring the copy up to date, or make one, and judge the pod on it while the block lasts."""
    config = question.configuration
    names = [profile.scheduler_name for profile in config.profiles]
    wanted = question.pod.spec.scheduler_name or names[0]
    if wanted not in names:
        if question.config is not None:
            raise ConfigError(
                f"the pod wants to be scheduled by {wanted!r}, and the configuration has profiles for "
                f"{', '.join(names)} alone; give the configuration of that scheduler with --config"
            )
        wanted = names[0]
    if cluster is None:
        cluster = ClusterCopy(config, registry=question.registry, feature_gates=question.feature_gates)
    cluster.update(question.objects)
    with cluster.without(question.pod) as is_there:
        yield Judge(question, cluster, profile=wanted, is_there=is_there)


def _unplaced(pod: Pod) -> Pod:
    if not pod.spec.node_name:
        return pod
    return with_fields(pod, spec=with_fields(pod.spec, node_name=""))
