"""StatefulSet: pods with numbers, one after the other, each with its own claims.

In: stateful sets and pods. Out: pods `name-0`, `name-1` and so on, made when the one before is ready and
taken away from the end; claims from the templates; rolling updates from the highest number down to the
partition. There are no ControllerRevisions here: a pod below the partition that dies comes back with the
new template.
"""

from __future__ import annotations

from typing import Final

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import Obj, key_of, name_of, namespace_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.controllers.deployment import template_hash
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.ownership import claim, index_owners, owner_key, reference_to
from kuberth.local.hollow.pod_states import is_finished, is_ready, seconds_to_available
from kuberth.local.hollow.working import COALESCE_SECONDS, Worker
from kuberth.local.selecting import labels_of

_API_VERSION: Final = "apps/v1"
_KIND: Final = "StatefulSet"
_REVISION_LABEL: Final = "controller-revision-hash"


class StatefulSetController:
    name = "statefulset"

    def __init__(self, informers: Informers, *, clock: Clock) -> None:
        self._clock = clock
        self._sets = informers.of("statefulsets.apps")
        self._pods = informers.of("pods")
        self._claims = informers.of("persistentvolumeclaims")
        self._worker = Worker(self.name, self._sync)
        index_owners(self._pods)
        self._sets.add_handler(lambda old, new: self._worker.add(key_of(new or old or {})))
        self._pods.add_handler(self._note_pod)

    async def run(self) -> None:
        for informer in (self._sets, self._pods, self._claims):
            await informer.synced.wait()
        await self._worker.run()

    def _note_pod(self, old: Obj | None, new: Obj | None) -> None:
        for pod in (old, new):
            if pod is not None and (key := owner_key(pod, _KIND)) is not None:
                self._worker.add_after(key, COALESCE_SECONDS)

    async def _sync(self, key: str) -> float | None:
        owner = self._sets.get(key)
        if owner is None:
            return None
        selector = owner["spec"].get("selector")
        owned = await claim(self._pods, owner, api_version=_API_VERSION, kind=_KIND, selector=selector)
        pods = {number: pod for pod in owned if (number := _number(owner, pod)) is not None}
        revision = f"{name_of(owner)}-{template_hash(owner['spec']['template'], 0)}"
        if not self._sets.is_leaving(owner):
            pods = await self._manage(owner, pods, revision)
        waits = [self._wait(owner, pod) for pod in pods.values()]
        await self._write_status(owner, pods, revision)
        return min((seconds for seconds in waits if seconds), default=None)

    async def _manage(self, owner: Obj, pods: dict[int, Obj], revision: str) -> dict[int, Obj]:
        """One step (with the Parallel policy: as many as there are); the pods afterwards."""
        spec = owner["spec"]
        first = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(first, first + spec.get("replicas", 1))
        parallel = spec.get("podManagementPolicy") == "Parallel"
        for number in wanted:
            pod = pods.get(number)
            if pod is None:
                pods[number] = await self._create(owner, number, revision)
            elif is_finished(pod) and not self._pods.is_leaving(pod):
                await self._pods.delete(pod)
            elif not self._pods.is_leaving(pod) and self._wait(owner, pod) == 0:
                continue
            if not parallel:
                return pods
        for number in sorted(pods.keys() - set(wanted), reverse=True):
            leaving = self._pods.is_leaving(pods[number])
            if not leaving:
                await self._pods.delete(pods[number])
            if not parallel:
                return pods
        await self._update(spec, {number: pods[number] for number in wanted}, revision)
        return pods

    async def _update(self, spec: Obj, pods: dict[int, Obj], revision: str) -> None:
        """Delete the highest pod that is not of the newest revision; it comes back as one that is."""
        strategy = spec.get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        for number in sorted(pods, reverse=True):
            pod = pods[number]
            if number < partition or self._pods.is_leaving(pod) or not is_ready(pod):
                return
            if labels_of(pod).get(_REVISION_LABEL) != revision:
                await self._pods.delete(pod)
                return

    def _wait(self, owner: Obj, pod: Obj) -> float | None:
        seconds = owner["spec"].get("minReadySeconds", 0)
        return seconds_to_available(pod, min_ready_seconds=seconds, clock=self._clock)

    async def _create(self, owner: Obj, number: int, revision: str) -> Obj:
        pod = _new_pod(owner, number, revision)
        for volume in pod["spec"].get("volumes") or ():
            if (source := volume.get("persistentVolumeClaim")) is not None:
                await self._make_claim(owner, volume["name"], source["claimName"])
        return await self._pods.create(pod)

    async def _make_claim(self, owner: Obj, template_name: str, name: str) -> None:
        templates = owner["spec"].get("volumeClaimTemplates") or ()
        template = next((one for one in templates if name_of(one) == template_name), None)
        if template is None or self._claims.get(f"{namespace_of(owner)}/{name}") is not None:
            return
        selecting = (owner["spec"].get("selector") or {}).get("matchLabels") or {}
        labels = {**labels_of(template), **selecting}
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace_of(owner), "labels": labels},
            "spec": template.get("spec", {}),
        }
        try:
            await self._claims.create(body)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise

    async def _write_status(self, owner: Obj, pods: dict[int, Obj], revision: str) -> None:
        old, spec = owner.get("status", {}), owner["spec"]
        alive = [pod for pod in pods.values() if not is_finished(pod) and not self._pods.is_leaving(pod)]
        of_revision = [labels_of(pod).get(_REVISION_LABEL) for pod in alive]
        updated, wanted = of_revision.count(revision), spec.get("replicas", 1)
        current = old.get("currentRevision") or revision
        ready = sum(map(is_ready, alive))
        if updated == len(pods) == wanted == ready:
            current = revision
        counts = {
            "readyReplicas": ready,
            "currentReplicas": of_revision.count(current),
            "updatedReplicas": updated,
        }
        status = {
            "observedGeneration": owner["metadata"].get("generation", 0),
            "replicas": len(pods),
            "availableReplicas": sum(self._wait(owner, pod) == 0 for pod in alive),
            **{name: count for name, count in counts.items() if count},
            "currentRevision": current,
            "updateRevision": revision,
            "collisionCount": 0,
        }
        if status != old:
            await self._sets.update({**owner, "status": status}, subresource="status")


def _number(owner: Obj, pod: Obj) -> int | None:
    prefix, _, number = name_of(pod).rpartition("-")
    return int(number) if prefix == name_of(owner) and number.isdecimal() else None


def _new_pod(owner: Obj, number: int, revision: str) -> Obj:
    spec = owner["spec"]
    template = spec["template"]
    metadata, name = template.get("metadata") or {}, f"{name_of(owner)}-{number}"
    labels = {
        **(metadata.get("labels") or {}),
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(number),
        _REVISION_LABEL: revision,
    }
    claims = {name_of(one): f"{name_of(one)}-{name}" for one in spec.get("volumeClaimTemplates") or ()}
    pod_spec = template.get("spec", {})
    others = [volume for volume in pod_spec.get("volumes") or () if volume["name"] not in claims]
    mounted = [{"name": each, "persistentVolumeClaim": {"claimName": of}} for each, of in claims.items()]
    annotations = metadata.get("annotations")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace_of(owner),
            "labels": labels,
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [reference_to(owner, api_version=_API_VERSION, kind=_KIND)],
        },
        "spec": {
            **pod_spec,
            "hostname": name,
            **({"subdomain": spec["serviceName"]} if spec.get("serviceName") else {}),
            **({"volumes": [*mounted, *others]} if mounted or others else {}),
        },
    }
