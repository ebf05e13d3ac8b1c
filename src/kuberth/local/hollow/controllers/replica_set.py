"""ReplicaSet and ReplicationController: maintain a number of pods.

In: replica sets (or replication controllers) and pods. Out: pods created and deleted, in upstream's order of
preference, and the status for deployments and kubectl.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, Final, NamedTuple

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import (
    Obj,
    condition,
    find_condition,
    key_of,
    labels_of,
    namespace_of,
    selector_of,
    set_condition,
    without_condition,
)
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.controlling import Controller, by_namespace
from kuberth.local.hollow.informing import Informer
from kuberth.local.hollow.ownership import Claim, controller_of, index_owners, pod_from_template
from kuberth.local.hollow.pod_states import deletion_order, is_finished, node_of, seconds_to_available
from kuberth.local.hollow.working import COALESCE_SECONDS, wait_all
from kuberth.text.timestamps import stamp

_BURST: Final = 500
"""The maximum number of pods created or deleted in one step."""


class _Standing(NamedTuple):
    """The group in which a pod that has not finished is counted."""

    active: bool
    """False: it is terminating."""
    labelled: bool
    """Whether the pod has all labels of the template."""
    ready: bool
    available: bool


class Counts(NamedTuple):
    active: int
    terminating: int
    labelled: int
    ready: int
    available: int


class Replicas:
    """The counts of one owner; all pods are counted again when its selector or template changes."""

    def __init__(self, pods: Informer, *, clock: Clock) -> None:
        self._pods = pods
        self._clock = clock
        self._criteria: tuple[object, ...] = ()
        """What the standings follow from besides the pods: selector, labels, ready seconds."""
        self._changed: set[str] = set()
        """Keys of pods to count again."""
        self._standings: dict[str, _Standing] = {}
        self._counts: Counter[_Standing] = Counter()
        self._maturing: dict[str, float] = {}
        """Ready pods that are not available yet, and the seconds they lacked when they were last counted."""

    def mark_changed(self, key: str) -> None:
        """Count this pod again with the next call of `count`."""
        self._changed.add(key)

    async def count(self, claim: Claim) -> Counts:
        """Count the pods that changed; matching orphans are adopted and other pods released."""
        spec = claim.owner["spec"]
        labels, seconds = labels_of(spec.get("template", {})), spec.get("minReadySeconds", 0)
        criteria = claim.matching, claim.owner_is_terminating, labels, seconds
        if criteria != self._criteria:
            self._criteria = criteria
            self._changed.update(self._standings, map(key_of, claim.candidates()))
        self._changed.update(self._maturing)
        wanted = selector_of({"matchLabels": labels})
        while self._changed:
            key = self._changed.pop()
            try:
                pod = self._pods.get(key)
                mine = None if pod is None else await claim.adopt_or_release(pod)
            except BaseException:
                self._changed.add(key)
                raise
            self._remove(key)
            if mine is not None and not is_finished(mine):
                self._add(key, mine, claim.owner, labelled=wanted.matches(labels_of(mine)))
        return self._sums()

    def active(self) -> list[Obj]:
        """The pods that count, as they are known here."""
        keys = (key for key, standing in self._standings.items() if standing.active)
        return [pod for key in keys if (pod := self._pods.get(key)) is not None]

    @property
    def seconds_to_next(self) -> float | None:
        """When the next ready pod will have been ready for long enough."""
        return min(self._maturing.values(), default=None)

    def _add(self, key: str, pod: Obj, owner: Obj, *, labelled: bool) -> None:
        active = not self._pods.is_terminating(pod)
        left = seconds_to_available(pod, owner, clock=self._clock)
        if active and left:
            self._maturing[key] = left
        standing = _Standing(active, labelled, ready=left is not None, available=left == 0)
        self._standings[key] = standing
        self._counts[standing] += 1

    def _remove(self, key: str) -> None:
        self._maturing.pop(key, None)
        standing = self._standings.pop(key, None)
        if standing is not None:
            self._counts[standing] -= 1

    def _sums(self) -> Counts:
        active = [(standing, count) for standing, count in self._counts.items() if standing.active]
        number = sum(count for _, count in active)
        return Counts(
            active=number,
            terminating=len(self._standings) - number,
            labelled=sum(count for standing, count in active if standing.labelled),
            ready=sum(count for standing, count in active if standing.ready),
            available=sum(count for standing, count in active if standing.available),
        )


class ReplicaSetController(Controller):
    name = "replicaset"
    resource: ClassVar = "replicasets.apps"
    kind: ClassVar = "ReplicaSet"
    component = "replicaset-controller"
    counts_terminating: ClassVar = True
    """Whether its status counts terminating pods."""

    def set_up(self) -> None:
        self._replicas: dict[str, Replicas] = {}
        """Replicas by UID of their replica set."""
        self._queue = self.queue_of(self.resource, self._sync)
        self._sets = self.watch(self.resource, self._on_set, indexes={"namespace": by_namespace})
        self._pods = self.watch("pods", self._on_pod)
        index_owners(self._pods)

    def _on_set(self, old: Obj | None, new: Obj | None) -> None:
        if new is None and old is not None:
            self._replicas.pop(old["metadata"]["uid"], None)
        self._queue.add(key_of(new or old or {}))

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        before, after = (None if pod is None else controller_of(pod) for pod in (old, new))
        changed = new or old or {}
        for reference in (after,) if before == after else (before, after):
            if reference is not None and reference.get("kind") == self.kind:
                self._queue_owner(f"{namespace_of(changed)}/{reference['name']}", reference["uid"], changed)
        if new is not None and after is None:
            for owner in self._sets.by("namespace", namespace_of(new)):
                if selector_of(self._selector(owner)).matches(labels_of(new)):
                    self._queue_owner(key_of(owner), owner["metadata"]["uid"], new)

    def _queue_owner(self, key: str, uid: str, pod: Obj) -> None:
        replicas = self._replicas.get(uid)
        if replicas is not None:
            replicas.mark_changed(key_of(pod))
        self._queue.add_after(key, COALESCE_SECONDS)

    async def _sync(self, replica_set: Obj) -> float | None:
        claim = Claim(self._pods, replica_set, selector=self._selector(replica_set))
        uid = replica_set["metadata"]["uid"]
        replicas = self._replicas.setdefault(uid, Replicas(self._pods, clock=self._clock))
        missing = replica_set["spec"].get("replicas", 1) - (await replicas.count(claim)).active
        failure: tuple[str, StatusError] | None = None
        if missing and not self._sets.is_terminating(replica_set):
            try:
                await self._manage(replica_set, replicas, missing)
            except StatusError as error:
                failure = ("FailedCreate" if missing > 0 else "FailedDelete", error)
        await self._write_status(replica_set, await replicas.count(claim), failure=failure)
        if failure is not None:
            raise failure[1]
        return replicas.seconds_to_next

    async def _manage(self, replica_set: Obj, replicas: Replicas, missing: int) -> None:
        """Make or delete pods."""
        if missing > 0:
            with self.reporting_refusals(replica_set):
                # One first: if the server refuses these pods, it does so once, not five hundred times.
                await self._pods.create(pod_from_template(replica_set))
                rest = min(missing, _BURST) - 1
                await wait_all(self._pods.create(pod_from_template(replica_set)) for _ in range(rest))
        else:
            active = replicas.active()
            on_node = Counter(node_of(pod) for pod in active)
            active.sort(key=lambda pod: deletion_order(pod, doubled=on_node[node_of(pod)]))
            await wait_all(self._pods.delete(pod) for pod in active[: min(-missing, _BURST)])
        if abs(missing) > _BURST:
            self._queue.add(key_of(replica_set))

    async def _write_status(
        self, replica_set: Obj, replicas: Counts, *, failure: tuple[str, StatusError] | None
    ) -> None:
        counts = {
            "fullyLabeledReplicas": replicas.labelled,
            "readyReplicas": replicas.ready,
            "availableReplicas": replicas.available,
        }
        status: Obj = {
            "replicas": replicas.active,
            **{name: count for name, count in counts.items() if count},
            **({"terminatingReplicas": replicas.terminating} if self.counts_terminating else {}),
            "observedGeneration": replica_set["metadata"].get("generation", 0),
        }
        if conditions := self._conditions(replica_set, failure):
            status["conditions"] = conditions
        await self._sets.write_status(replica_set, status)

    def _conditions(self, replica_set: Obj, failure: tuple[str, StatusError] | None) -> list[Obj]:
        conditions = replica_set.get("status", {}).get("conditions") or []
        if failure is None:
            return without_condition(conditions, "ReplicaFailure")
        if find_condition(replica_set, "ReplicaFailure") is not None:
            return list(conditions)
        reason, error = failure
        failed = condition("ReplicaFailure", True, reason, str(error))
        return set_condition(conditions, failed, now=stamp(self._clock))

    def _selector(self, owner: Obj) -> Obj | None:
        selector: Obj | None = owner["spec"].get("selector")
        return selector


class ReplicationControllerController(ReplicaSetController):
    """Runs replication controllers like replica sets: their selector is a plain set of labels."""

    name = "replicationcontroller"
    resource = "replicationcontrollers"
    kind = "ReplicationController"
    component = "replication-controller"
    counts_terminating = False

    def _selector(self, owner: Obj) -> Obj | None:
        labels = owner["spec"].get("selector")
        return {"matchLabels": labels} if labels else None
