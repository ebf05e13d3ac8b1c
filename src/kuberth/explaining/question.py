"""A question: which pod, in which cluster, by whose rules; and an evaluator that can be asked it.

In: objects and a configuration. Out: a `Judge`, which answers for the pod as it is and as it would be after
edits. A pod that has a node is judged as if it had none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from msgspec.structs import replace as with_fields

from kuberth.api.core import Node, Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import FeatureGates, KubeSchedulerConfiguration, default_configuration
from kuberth.errors import ConfigError
from kuberth.evaluation import Evaluator
from kuberth.explaining.edits import Edit, Scene, gone_pods
from kuberth.framework.registry import Registry
from kuberth.framework.status import Status
from kuberth.informers.store import object_key

FINISHED: Final = ("Succeeded", "Failed")


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
    """What whoever asks should know about how it was asked."""


class Judge:
    """The rules over the cluster, ready to be asked about the pod."""

    def __init__(self, question: Question) -> None:
        config = question.config or default_configuration(question.feature_gates)
        names = [profile.scheduler_name for profile in config.profiles]
        wanted = question.pod.spec.scheduler_name or names[0]
        self.notes: tuple[str, ...] = ()
        """What is to be known about how it was judged."""
        if wanted not in names and question.config is None:
            self.notes = (f"the pod waits for the scheduler {wanted}; it was judged as {names[0]} would",)
            wanted = names[0]
        elif wanted not in names:
            raise ConfigError(
                f"the pod wants to be scheduled by {wanted!r}, and the configuration has profiles for "
                f"{', '.join(names)} alone; give the configuration of that scheduler with --config"
            )
        self.profile = wanted
        key = object_key(question.pod)
        others = [obj for obj in question.objects if not (isinstance(obj, Pod) and object_key(obj) == key)]
        is_there = len(others) < len(question.objects)
        self.node = question.pod.spec.node_name if is_there else ""
        """The node that the pod has. One that is in no cluster yet can only ask for a node by its name."""
        self.pod = _unplaced(question.pod) if is_there else question.pod
        """The pod as if it had no node."""
        self.evaluator = Evaluator(
            (obj for obj in others if not _is_finished(obj)),
            config=config,
            profile=wanted,
            registry=question.registry,
            feature_gates=question.feature_gates,
        )
        self.scene = Scene(self.pod, self._node)
        self._tried: dict[frozenset[Edit], bool] = {}
        self._adopt(others)

    def _adopt(self, objects: Iterable[Any]) -> None:
        """Nodes that are promised to other pods count as taken, as they do for the scheduler."""
        for obj in objects:
            if isinstance(obj, Pod) and not obj.spec.node_name and obj.status.nominated_node_name:
                self.evaluator.nominator.adopt(PodInfo(obj))

    def _node(self, name: str) -> Node | None:
        return self.evaluator.stores.of(Node).get(name)

    @cached_property
    def pods(self) -> Mapping[str, Pod]:
        """All other pods by namespace/name."""
        return {object_key(pod): pod for pod in self.evaluator.stores.of(Pod)}

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
        gone = gone_pods(scene, self.pods)
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


def _unplaced(pod: Pod) -> Pod:
    if not pod.spec.node_name:
        return pod
    return with_fields(pod, spec=with_fields(pod.spec, node_name=""))


def _is_finished(obj: Any) -> bool:
    return isinstance(obj, Pod) and obj.status.phase in FINISHED
