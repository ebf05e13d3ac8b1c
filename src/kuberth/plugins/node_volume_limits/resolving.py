"""Resolves a pod's volumes to what a CSI driver would have to attach.

In: volumes, and the claims, PersistentVolumes and storage classes behind them. Out: volumes by driver and
handle. The result for a claim is cached until one of these objects changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kuberth.api.core import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from kuberth.api.storage import StorageClass
from kuberth.framework.handle import Handle
from kuberth.framework.status import Status
from kuberth.plugins.volumes import csi_migration
from kuberth.plugins.volumes.claims import claim_class, claim_not_found, claim_of, ownership_problem
from kuberth.plugins.volumes.csi_migration import TranslationError

# No driver uses such a handle, so a volume that does not exist yet is never confused with one that does.
_TO_BE_MADE: Final = "\0"


class Attachable(NamedTuple):
    """A volume as its CSI driver identifies it."""

    driver: str
    handle: str
    is_migrated: bool = False
    """Whether it counts only on nodes with a CSINode: others may still use the in-tree plugin."""

    @property
    def key(self) -> str:
        """The identity of a volume, as in upstream."""
        return f"{self.driver}/{self.handle}"


class VolumeResolver:
    """Call `refresh` before reading; it returns the claims whose result may have changed."""

    def __init__(self, handle: Handle) -> None:
        self._claims = handle.stores.of(PersistentVolumeClaim)
        self._volumes = handle.stores.of(PersistentVolume)
        self._classes = handle.stores.of(StorageClass)
        self._claim_changes = self._claims.change_reader()
        self._volume_changes = self._volumes.change_reader()
        self._class_changes = self._classes.change_reader()
        self._known: dict[str, Attachable | None] = {}
        self._claims_of_volume: dict[str, set[str]] = {}

    def refresh(self) -> frozenset[str] | None:
        """Keys of claims that changed, or whose volumes did, since the last call; None: any may have."""
        claims, volumes = self._claim_changes.read(), self._volume_changes.read()
        classes = self._class_changes.read()
        if claims is None or volumes is None or classes != frozenset():
            self._known.clear()
            self._claims_of_volume.clear()
            return None
        changed = set(claims)
        for name in volumes:
            changed |= self._claims_of_volume.pop(name, set())
        for key in changed:
            self._known.pop(key, None)
        return frozenset(changed)

    def for_new_pod(
        self, pod: Pod, volumes: Iterable[Volume], *, migrated: bool
    ) -> list[Attachable] | Status:
        """The pod's volumes; with `migrated` on a node where in-tree volumes are CSI volumes."""
        return self._resolve(pod, volumes, migrated=migrated, must_exist=True)

    def for_placed_pod(self, pod: Pod, volumes: Iterable[Volume]) -> list[Attachable] | Status:
        """The known volumes that the pod has attached to its node."""
        return self._resolve(pod, volumes, migrated=True, must_exist=False)

    def _resolve(
        self, pod: Pod, volumes: Iterable[Volume], *, migrated: bool, must_exist: bool
    ) -> list[Attachable] | Status:
        found: list[Attachable] = []
        namespace = pod.metadata.namespace
        for volume in volumes:
            use = claim_of(pod, volume)
            if use is None:
                try:
                    inline = _of_volume(volume) if migrated else None
                except TranslationError as exc:
                    return Status.error(f"converting volume({volume.name}) from inline to csi: {exc}")
                if inline is not None:
                    found.append(inline)
                continue
            if not use.name:
                return Status.error("PersistentVolumeClaim had no name")
            claim = self._claims.get(use.name, namespace=namespace)
            if claim is None:
                if must_exist:
                    missing = claim_not_found(use.name)
                    return Status.unresolvable(f"looking up PVC {namespace}/{use.name}: {missing}")
                continue
            if use.is_ephemeral and (problem := ownership_problem(pod, claim)):
                return Status.error(problem)
            attachable = self._of_claim(f"{namespace}/{use.name}", claim)
            if attachable is not None and (migrated or not attachable.is_migrated):
                found.append(attachable)
        return found

    def _of_claim(self, key: str, claim: PersistentVolumeClaim) -> Attachable | None:
        if key not in self._known:
            self._known[key] = self._derived(key, claim)
        return self._known[key]

    def _derived(self, key: str, claim: PersistentVolumeClaim) -> Attachable | None:
        if claim.spec.volume_name:
            self._claims_of_volume.setdefault(claim.spec.volume_name, set()).add(key)
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is not None:
                try:
                    found = _of_volume(volume)
                except TranslationError:
                    return None
                return found if found is not None and found.driver and found.handle else None
        return self._to_be_made(key, claim)

    def _to_be_made(self, key: str, claim: PersistentVolumeClaim) -> Attachable | None:
        """A claim without a volume counts for the driver that will provision it."""
        storage_class = self._classes.get(claim_class(claim))
        if storage_class is None:
            return None
        plugin = csi_migration.BY_NAME.get(storage_class.provisioner)
        if plugin is not None:
            return Attachable(plugin.driver, _TO_BE_MADE + key, True) if plugin.is_migrated else None
        if not storage_class.provisioner:
            return None
        return Attachable(storage_class.provisioner, _TO_BE_MADE + key)


def _of_volume(volume: Volume | PersistentVolume) -> Attachable | None:
    """An inline volume of a pod, or a PersistentVolume; raises TranslationError."""
    if isinstance(volume, PersistentVolume) and volume.spec.csi is not None:
        return Attachable(volume.spec.csi.driver, volume.spec.csi.volume_handle)
    plugin = csi_migration.plugin_of(volume)
    if plugin is None or not plugin.is_migrated:
        return None
    return Attachable(plugin.driver, plugin.handle_of(volume), True)
