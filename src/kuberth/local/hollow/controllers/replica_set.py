"""ReplicaSet and ReplicationController: the wanted number of pods.

In: replica sets (or replication controllers) and pods. Out: pods made and deleted, in upstream's order of
preference, and the status that deployments and kubectl read.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, Final

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import Obj, key_of, name_of, namespace_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.conditions import find_condition, set_condition, without_condition
from kuberth.local.hollow.controlling import Controller, by_namespace
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.ownership import Claim, controller_of, index_owners, reference_to
from kuberth.local.hollow.pod_states import deletion_order, node_of
from kuberth.local.hollow.recording import Recorder
from kuberth.local.hollow.replicas import Counts, Replicas
from kuberth.local.hollow.working import COALESCE_SECONDS, wait_all
from kuberth.local.selecting import labels_of, selector_of
from kuberth.text.timestamps import stamp

_BURST: Final = 500
"""Most pods created or deleted in one step."""


class ReplicaSetController:
    name = "replicaset"
    resource: ClassVar = "replicasets.apps"
    kind: ClassVar = "ReplicaSet"
    component: ClassVar = "replicaset-controller"

    def __init__(self, informers: Informers, *, clock: Clock) -> None:
        self._clock = clock
        self._recorder = Recorder(informers, clock=clock, component=self.component)
        self._replicas: dict[str, Replicas] = {}
        """By UID of their replica set."""
        controller = Controller(informers)
        self._queue = controller.queue(self.name, self._sync)
        self._sets = controller.watch(self.resource, self._on_set, indexes={"namespace": by_namespace})
        self._pods = controller.watch("pods", self._on_pod)
        index_owners(self._pods)
        self.run = controller.run

    def _on_set(self, old: Obj | None, new: Obj | None) -> None:
        if new is None and old is not None:
            self._replicas.pop(old["metadata"]["uid"], None)
        self._queue.add(key_of(new or old or {}))

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        before, after = (None if pod is None else controller_of(pod) for pod in (old, new))
        changed = new or old or {}
        for reference in (after,) if before == after else (before, after):
            if reference is not None and reference.get("kind") == self.kind:
                self._look_at(f"{namespace_of(changed)}/{reference['name']}", reference["uid"], changed)
        if new is not None and after is None:
            for owner in self._sets.by("namespace", namespace_of(new)):
                if selector_of(self._selector(owner)).matches(labels_of(new)):
                    self._look_at(key_of(owner), owner["metadata"]["uid"], new)

    def _look_at(self, key: str, uid: str, pod: Obj) -> None:
        replicas = self._replicas.get(uid)
        if replicas is not None:
            replicas.note(key_of(pod))
        self._queue.add_after(key, COALESCE_SECONDS)

    async def _sync(self, key: str) -> float | None:
        replica_set = self._sets.get(key)
        if replica_set is None:
            return None
        claim = Claim(self._pods, replica_set, selector=self._selector(replica_set))
        uid = replica_set["metadata"]["uid"]
        replicas = self._replicas.setdefault(uid, Replicas(self._pods, clock=self._clock))
        missing = replica_set["spec"].get("replicas", 1) - (await replicas.look(claim)).active
        failure: tuple[str, StatusError] | None = None
        if missing and not self._sets.is_leaving(replica_set):
            try:
                await self._manage(replica_set, replicas, missing)
            except StatusError as error:
                failure = ("FailedCreate" if missing > 0 else "FailedDelete", error)
        await self._write_status(replica_set, await replicas.look(claim), failure=failure)
        if failure is not None:
            raise failure[1]
        return replicas.seconds_to_next

    async def _manage(self, replica_set: Obj, replicas: Replicas, missing: int) -> None:
        """Make or delete pods."""
        if missing > 0:
            with self._recorder.reporting_refusals(replica_set):
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
            **self._status_of_leaving(replicas.terminating),
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
        condition = {"type": "ReplicaFailure", "status": "True", "reason": reason, "message": str(error)}
        return set_condition(conditions, condition, now=stamp(self._clock))

    def _selector(self, owner: Obj) -> Obj | None:
        selector: Obj | None = owner["spec"].get("selector")
        return selector

    def _status_of_leaving(self, count: int) -> Obj:
        return {"terminatingReplicas": count}


class ReplicationControllerController(ReplicaSetController):
    """The same for replication controllers: their selector is a plain set of labels."""

    name = "replicationcontroller"
    resource = "replicationcontrollers"
    kind = "ReplicationController"
    component = "replication-controller"

    def _selector(self, owner: Obj) -> Obj | None:
        labels = owner["spec"].get("selector")
        return {"matchLabels": labels} if labels else None

    def _status_of_leaving(self, count: int) -> Obj:
        return {}


def pod_from_template(owner: Obj) -> Obj:
    """A pod of a controller's template, owned by it, with a name to be generated."""
    template = owner["spec"].get("template", {})
    metadata = template.get("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{name_of(owner)}-",
            "namespace": namespace_of(owner),
            **{
                field: metadata[field]
                for field in ("labels", "annotations", "finalizers")
                if field in metadata
            },
            "ownerReferences": [reference_to(owner)],
        },
        "spec": template.get("spec", {}),
    }
