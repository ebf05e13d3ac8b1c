"""StatefulSet: pods with numbers, one after the other, each with its own claims.

In: stateful sets and pods. Out: pods `name-0`, `name-1` and so on, made when the one before is ready and
taken away from the end; claims from the templates; rolling updates from the highest number down to the
partition, each version of the template kept as a ControllerRevision; claims that go with their pod or with
the set, where its retention policy says so.
"""

from __future__ import annotations

from typing import Final

from kuberth.local.apiserver.objects import Obj, labels_of, name_of, namespace_of, with_metadata
from kuberth.local.hollow.controllers.revisions import REVISION_LABEL, RevisionHistory, Versions, template_of
from kuberth.local.hollow.controlling import Controller
from kuberth.local.hollow.ownership import claim, owner_reference, pod_from_template, reference_to
from kuberth.local.hollow.pod_states import is_finished, is_ready, seconds_to_available

_KIND: Final = "StatefulSet"


class StatefulSetController(Controller):
    name = "statefulset"
    component = "statefulset-controller"

    def set_up(self) -> None:
        queue = self.queue_of("statefulsets.apps", self._sync)
        self._sets = self.watch("statefulsets.apps", queue.add_changed)
        self._pods = self.watch_owned("pods", queue, kind=_KIND, coalesce=True)
        self._claims = self.watch("persistentvolumeclaims")
        self._history = RevisionHistory(self, hash_label="controller.kubernetes.io/hash")

    async def _sync(self, owner: Obj) -> float | None:
        owned = await claim(self._pods, owner)
        pods = {number: pod for pod in owned if (number := _number(owner, pod)) is not None}
        if self._sets.is_terminating(owner):
            return None
        versions = await self._history.versions(owner)
        pods = await self._manage(owner, pods, versions)
        waits = [self._wait(owner, pod) for pod in pods.values()]
        await self._write_status(owner, pods, versions)
        used = {labels_of(pod).get(REVISION_LABEL, "") for pod in pods.values()}
        await self._history.clean_up(owner, versions, used=used)
        return min((seconds for seconds in waits if seconds), default=None)

    async def _manage(self, owner: Obj, pods: dict[int, Obj], versions: Versions) -> dict[int, Obj]:
        """Make one step (with the Parallel policy: as many as there are); the pods afterwards."""
        spec = owner["spec"]
        first = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(first, first + spec.get("replicas", 1))
        parallel = spec.get("podManagementPolicy") == "Parallel"
        await self._own_claims(owner, pods, wanted)
        for number in wanted:
            pod = pods.get(number)
            if pod is None:
                pods[number] = await self._create(
                    owner, number, _version_for(owner, number - first, versions)
                )
            elif is_finished(pod) and not self._pods.is_terminating(pod):
                await self._pods.delete(pod)
            elif not self._pods.is_terminating(pod) and self._wait(owner, pod) == 0:
                continue
            if not parallel:
                return pods
        for number in sorted(pods.keys() - set(wanted), reverse=True):
            leaving = self._pods.is_terminating(pods[number])
            if not leaving:
                await self._pods.delete(pods[number])
            if not parallel:
                return pods
        present = {number: pods[number] for number in wanted}
        await self._update(spec, present, first=first, revision=name_of(versions.update))
        return pods

    async def _update(self, spec: Obj, pods: dict[int, Obj], *, first: int, revision: str) -> None:
        """Delete the highest pod that is not of the newest revision, to create it again from that."""
        strategy = spec.get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        for number in sorted(pods, reverse=True):
            pod = pods[number]
            if number - first < _partition(spec):
                return
            if labels_of(pod).get(REVISION_LABEL) != revision and not self._pods.is_terminating(pod):
                await self._pods.delete(pod)
                return
            if self._pods.is_terminating(pod) or not is_ready(pod):
                return

    async def _own_claims(self, owner: Obj, pods: dict[int, Obj], wanted: range) -> None:
        """Set the owners of claims by the retention policy: a surplus pod, the set, or none."""
        policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        for number, pod in pods.items():
            for name in _claims(owner, name_of(pod)).values():
                claim_ = self._claims.get(f"{namespace_of(owner)}/{name}")
                if claim_ is None or self._claims.is_terminating(claim_):
                    continue
                with_pod = policy.get("whenScaled") == "Delete" and number not in wanted
                with_set = policy.get("whenDeleted") == "Delete" and not with_pod
                await self._own_claim(claim_, owner if with_set else None, pod if with_pod else None)

    async def _own_claim(self, claim_: Obj, owner: Obj | None, pod: Obj | None) -> None:
        present: list[Obj] = claim_["metadata"].get("ownerReferences") or []
        wanted = [one for one in present if one.get("kind") not in (_KIND, "Pod")]
        if owner is not None:
            wanted.append(reference_to(owner))
        if pod is not None:
            wanted.append(owner_reference(pod, "v1", "Pod"))
        if wanted != present:
            await self._claims.update(with_metadata(claim_, ownerReferences=wanted))

    def _wait(self, owner: Obj, pod: Obj) -> float | None:
        return seconds_to_available(pod, owner, clock=self._clock)

    async def _create(self, owner: Obj, number: int, revision: Obj) -> Obj:
        pod = _new_pod(owner, number, revision)
        for volume in pod["spec"].get("volumes") or ():
            if (source := volume.get("persistentVolumeClaim")) is not None:
                await self._make_claim(owner, volume["name"], source["claimName"])
        with self.reporting_refusals(owner):
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
        await self._claims.create_if_absent(body)

    async def _write_status(self, owner: Obj, pods: dict[int, Obj], versions: Versions) -> None:
        spec = owner["spec"]
        current, update = name_of(versions.current), name_of(versions.update)
        alive = [pod for pod in pods.values() if not is_finished(pod) and not self._pods.is_terminating(pod)]
        of_revision = [labels_of(pod).get(REVISION_LABEL) for pod in alive]
        updated, wanted = of_revision.count(update), spec.get("replicas", 1)
        ready = sum(map(is_ready, alive))
        rolling = (spec.get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate"
        if rolling and updated == len(pods) == wanted == ready:
            current = update
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
            "updateRevision": update,
            "collisionCount": versions.collisions,
        }
        await self._sets.write_status(owner, status)


def _partition(spec: Obj) -> int:
    strategy = spec.get("updateStrategy") or {}
    return int((strategy.get("rollingUpdate") or {}).get("partition") or 0)


def _version_for(owner: Obj, position: int, versions: Versions) -> Obj:
    """The revision to create a pod from: below the partition the current one."""
    spec, strategy = owner["spec"], owner["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return versions.update
    if "rollingUpdate" in strategy:
        return versions.current if position < _partition(spec) else versions.update
    stays = int(owner.get("status", {}).get("currentReplicas") or 0)
    return versions.current if position < stays else versions.update


def _claims(owner: Obj, pod: str) -> dict[str, str]:
    """Names of a pod's own claims, by template."""
    templates = owner["spec"].get("volumeClaimTemplates") or ()
    return {name_of(one): f"{name_of(one)}-{pod}" for one in templates}


def _number(owner: Obj, pod: Obj) -> int | None:
    prefix, _, number = name_of(pod).rpartition("-")
    return int(number) if prefix == name_of(owner) and number.isdecimal() else None


def _new_pod(owner: Obj, number: int, revision: Obj) -> Obj:
    spec, template = owner["spec"], template_of(revision)
    metadata, name = template.get("metadata") or {}, f"{name_of(owner)}-{number}"
    labels = {
        **(metadata.get("labels") or {}),
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(number),
        REVISION_LABEL: name_of(revision),
    }
    claims = _claims(owner, name)
    pod_spec = template.get("spec", {})
    others = [volume for volume in pod_spec.get("volumes") or () if volume["name"] not in claims]
    mounted = [{"name": each, "persistentVolumeClaim": {"claimName": of}} for each, of in claims.items()]
    own = {
        "hostname": name,
        **({"subdomain": spec["serviceName"]} if spec.get("serviceName") else {}),
        **({"volumes": [*mounted, *others]} if mounted or others else {}),
    }
    pod = pod_from_template(owner, template, name=name, labels=labels, finalizers=None)
    return {**pod, "spec": {**pod_spec, **own}}
