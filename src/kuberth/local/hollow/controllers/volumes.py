"""PersistentVolumes and claims: bound to each other, and provisioned for hollow storage classes.

In: claims, volumes, storage classes, nodes. Out: bindings on both sides, volumes for claims of classes
whose provisioner is `kuberth.dev/hollow`, and volumes that are released or deleted after their claim. With
WaitForFirstConsumer nothing happens before the scheduler has chosen a node (the selected-node annotation)
or a volume. A hollow volume can be used from anywhere, unless its class says otherwise:

    parameters: {topologyKey: topology.kubernetes.io/zone}    only from nodes like the one selected
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kuberth.api import quantity
from kuberth.errors import QuantityError
from kuberth.local.apiserver.objects import (
    Obj,
    annotation_of,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    newest_default,
    reference_of,
    selector_of,
    with_metadata,
)
from kuberth.local.hollow.controlling import Controller
from kuberth.local.hollow.informing import Informer

PROVISIONER: Final = "kuberth.dev/hollow"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_WAIT: Final = "WaitForFirstConsumer"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


class VolumeController(Controller):
    name = "persistentvolume"

    def set_up(self) -> None:
        # Claims one at a time: two of them must not choose the same volume.
        self._claim_queue = self.queue_of(
            "persistentvolumeclaims", self._sync_claim, name="claims", parallel=1
        )
        self._volume_queue = self.queue_of("persistentvolumes", self._sync_volume, name="volumes")
        self._claims = self.watch("persistentvolumeclaims")
        self._volumes = self.watch("persistentvolumes", self._on_volume, indexes={"claim": _claim_keys})
        self._claims.add_handler(self._on_claim)
        self._classes = self.watch("storageclasses.storage.k8s.io", lambda old, new: self._queue_unbound())
        self._nodes = self.watch("nodes")

    def _on_claim(self, old: Obj | None, new: Obj | None) -> None:
        claim = new or old or {}
        self._claim_queue.add(key_of(claim))
        if new is None:
            for volume in self._volumes.by("claim", key_of(claim)):
                self._volume_queue.add(name_of(volume))

    def _on_volume(self, old: Obj | None, new: Obj | None) -> None:
        volume = new or old or {}
        self._volume_queue.add(name_of(volume))
        keys = list(_claim_keys(volume))
        for key in keys:
            self._claim_queue.add(key)
        if not keys:
            self._queue_unbound()

    def _queue_unbound(self) -> None:
        for claim in self._claims.all():
            if claim.get("status", {}).get("phase") != "Bound":
                self._claim_queue.add(key_of(claim))

    # Claims

    async def _sync_claim(self, claim: Obj) -> None:
        if self._claims.is_terminating(claim):
            return
        claim = await self._with_class(claim)
        name = claim["spec"].get("volumeName", "")
        if name:
            await self._follow_name(claim, name)
            return
        volume = self._find(claim)
        if volume is not None:
            await self._bind(claim, volume)
            return
        class_ = self._class_of(claim)
        if class_ is not None and class_.get("provisioner") == PROVISIONER and not _must_wait(claim, class_):
            await self._provision(claim, class_)
        else:
            await _write_phase(self._claims, claim, "Pending")

    async def _with_class(self, claim: Obj) -> Obj:
        """The claim with the default class if it names none, also after its creation, as upstream."""
        if claim["spec"].get("storageClassName") is not None or claim["spec"].get("volumeName"):
            return claim
        default = newest_default(self._classes.all(), _DEFAULT_CLASS)
        if default is None:
            return claim
        spec = {**claim["spec"], "storageClassName": name_of(default)}
        return await self._claims.update({**claim, "spec": spec})

    async def _follow_name(self, claim: Obj, name: str) -> None:
        """Bind a claim that names its volume, or mark it as lost."""
        volume = self._volumes.get(name)
        if volume is None:
            lost = annotation_of(claim, _BIND_COMPLETED) and await self._volumes.fetch(name) is None
            await _write_phase(self._claims, claim, "Lost" if lost else "Pending")
        elif (reference := volume["spec"].get("claimRef")) is None or _is_for(reference, claim):
            await self._bind(claim, volume)
        else:
            phase = "Lost" if annotation_of(claim, _BIND_COMPLETED) else "Pending"
            await _write_phase(self._claims, claim, phase)

    def _find(self, claim: Obj) -> Obj | None:
        """A volume kept for this claim (by people, or by the scheduler), or the smallest that will do."""
        mine = [each for each in self._volumes.by("claim", key_of(claim)) if _is_for(_reference(each), claim)]
        if mine:
            return mine[0]
        class_ = self._class_of(claim)
        if class_ is not None and class_.get("volumeBindingMode") == _WAIT:
            return None  # the scheduler chooses, for it knows from where the volume must be reached
        selector = claim["spec"].get("selector")
        free = [
            volume
            for volume in self._volumes.all()
            if volume["spec"].get("claimRef") is None
            and not self._volumes.is_terminating(volume)
            and _suits(volume, claim)
            and (selector is None or selector_of(selector).matches(labels_of(volume)))
        ]
        return min(free, key=lambda each: (_bytes(_capacity(each)), name_of(each)), default=None)

    async def _bind(self, claim: Obj, volume: Obj) -> None:
        """Bind both sides to each other, the volume first, so that no other claim takes it."""
        reference = volume["spec"].get("claimRef")
        if reference is None or reference.get("uid") != claim["metadata"]["uid"]:
            metadata = volume["metadata"]
            if reference is None:
                metadata = _annotated(metadata, _BOUND_BY_CONTROLLER)
            spec = {**volume["spec"], "claimRef": reference_of(claim)}
            volume = await self._volumes.update({**volume, "metadata": metadata, "spec": spec})
        volume = await _write_phase(self._volumes, volume, "Bound")
        if claim["spec"].get("volumeName") != name_of(volume) or not annotation_of(claim, _BIND_COMPLETED):
            metadata = _annotated(claim["metadata"], _BIND_COMPLETED)
            if not claim["spec"].get("volumeName"):
                metadata = _annotated(metadata, _BOUND_BY_CONTROLLER)
            spec = {**claim["spec"], "volumeName": name_of(volume)}
            claim = await self._claims.update({**claim, "metadata": metadata, "spec": spec})
        status = {
            **claim.get("status", {}),
            "phase": "Bound",
            "accessModes": volume["spec"].get("accessModes", []),
            "capacity": {"storage": _capacity(volume)},
        }
        await self._claims.write_status(claim, status)

    async def _provision(self, claim: Obj, class_: Obj) -> None:
        node = None
        if selected := annotation_of(claim, SELECTED_NODE):
            node = await self._nodes.fetch(selected)
            if node is None:
                # The node is gone: the scheduler chooses again.
                annotations = {**claim["metadata"]["annotations"]}
                del annotations[SELECTED_NODE]
                await self._claims.update(with_metadata(claim, annotations=annotations))
                return
        name = f"pvc-{claim['metadata']['uid']}"
        volume = await self._volumes.fetch(name)
        if volume is None:
            volume = await self._volumes.create(_new_volume(name, claim, class_, node))
        await self._bind(claim, volume)

    def _class_of(self, claim: Obj) -> Obj | None:
        return self._classes.get(claim["spec"].get("storageClassName") or "")

    # Volumes

    async def _sync_volume(self, volume: Obj) -> None:
        if self._volumes.is_terminating(volume):
            return
        reference = volume["spec"].get("claimRef")
        if reference is None or not reference.get("uid"):
            # Without a UID it is reserved for a claim that may be created; the claim's sync binds them.
            await _write_phase(self._volumes, volume, "Available")
            return
        claim = await self._claims.fetch(_claim_key(reference))
        if claim is not None and claim["metadata"]["uid"] == reference["uid"]:
            return
        hollow = annotation_of(volume, _PROVISIONED_BY) == PROVISIONER
        if hollow and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            await self._volumes.delete(volume)
        else:
            await _write_phase(self._volumes, volume, "Released")


async def _write_phase(informer: Informer, obj: Obj, phase: str) -> Obj:
    return await informer.write_status(obj, {**obj.get("status", {}), "phase": phase})


def _new_volume(name: str, claim: Obj, class_: Obj, node: Obj | None) -> Obj:
    spec: Obj = {
        "capacity": {"storage": _request(claim)},
        "accessModes": claim["spec"].get("accessModes", ["ReadWriteOnce"]),
        "persistentVolumeReclaimPolicy": class_.get("reclaimPolicy", "Delete"),
        "storageClassName": name_of(class_),
        "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
        "claimRef": reference_of(claim),
        "csi": {"driver": PROVISIONER, "volumeHandle": name},
    }
    key = (class_.get("parameters") or {}).get("topologyKey", "")
    if node is not None and key in labels_of(node):
        expression = {"key": key, "operator": "In", "values": [labels_of(node)[key]]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {_PROVISIONED_BY: PROVISIONER}},
        "spec": spec,
    }


def _must_wait(claim: Obj, class_: Obj) -> bool:
    """Whether the scheduler has yet to choose a node for the first pod that wants the volume."""
    return class_.get("volumeBindingMode") == _WAIT and not annotation_of(claim, SELECTED_NODE)


def _suits(volume: Obj, claim: Obj) -> bool:
    spec, wanted = volume["spec"], claim["spec"]
    return (
        spec.get("storageClassName", "") == (wanted.get("storageClassName") or "")
        and spec.get("volumeMode", "Filesystem") == wanted.get("volumeMode", "Filesystem")
        and set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and _bytes(_capacity(volume)) >= _bytes(_request(claim))
    )


def _capacity(volume: Obj) -> Any:
    return (volume["spec"].get("capacity") or {}).get("storage", "0")


def _request(claim: Obj) -> Any:
    return ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0")


def _bytes(amount: Any) -> int:
    try:
        return quantity.value(amount)
    except QuantityError:
        return 0


def _reference(volume: Obj) -> Obj:
    reference: Obj = volume["spec"].get("claimRef") or {}
    return reference


def _claim_keys(volume: Obj) -> Iterable[str]:
    reference = _reference(volume)
    return (_claim_key(reference),) if reference else ()


def _claim_key(reference: Obj) -> str:
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}"


def _is_for(reference: Obj, claim: Obj) -> bool:
    named = (reference.get("namespace"), reference.get("name")) == (namespace_of(claim), name_of(claim))
    return named and reference.get("uid", "") in ("", claim["metadata"]["uid"])


def _annotated(metadata: Obj, name: str) -> Obj:
    return {**metadata, "annotations": {**(metadata.get("annotations") or {}), name: "yes"}}
