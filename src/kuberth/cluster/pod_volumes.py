"""The volumes of a pod that tie it to a node: attached volumes, and disks named in the pod.

In: a pod's volumes. Out: those that volume plugins read, and the identity of every inline disk, so that the
cluster table can count its users per node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final, NamedTuple

from kuberth.api.core import Volume

MIGRATED_SOURCES: Final = (
    "aws_elastic_block_store",
    "gce_persistent_disk",
    "azure_disk",
    "azure_file",
    "cinder",
    "vsphere_volume",
    "portworx_volume",
)
"""In-tree volume sources that CSI drivers have replaced: fields of `Volume` and of a PV's spec."""

# All pods are processed, so all sources of a volume are read in one call.
_sources = attrgetter("persistent_volume_claim", "ephemeral", *MIGRATED_SOURCES)
_NO_SOURCE: Final = (None,) * (2 + len(MIGRATED_SOURCES))
_restricted = attrgetter("gce_persistent_disk", "aws_elastic_block_store", "iscsi", "rbd")
_NOT_RESTRICTED: Final = (None,) * 4


class Disk(NamedTuple):
    """A disk named in a pod. An RBD image is one disk per monitor."""

    source: str
    identity: tuple[str, ...]
    read_only: bool

    @property
    def conflicting(self) -> tuple[Disk, ...]:
        """The uses that exclude this one on the same node: two readers may share, a writer may not."""
        writer = self._replace(read_only=False)
        return (writer,) if self.read_only else (writer, self._replace(read_only=True))


def is_attachable(volume: Volume) -> bool:
    """Whether a CSI driver may have to attach it: through a claim, or instead of an in-tree plugin."""
    return bool(_sources(volume) != _NO_SOURCE)


def is_restricted(volume: Volume) -> bool:
    """Whether it is a disk that pods cannot share freely."""
    return bool(_restricted(volume) != _NOT_RESTRICTED)


def disks(volumes: Iterable[Volume]) -> tuple[Disk, ...]:
    """The disks that pods cannot share freely."""
    return tuple(disk for volume in volumes if is_restricted(volume) for disk in _disks(volume))


def _disks(volume: Volume) -> Iterator[Disk]:
    if (gce := volume.gce_persistent_disk) is not None:
        yield Disk("gce", (gce.pd_name,), gce.read_only)
    if (aws := volume.aws_elastic_block_store) is not None:
        # Not even two readers can share it.
        yield Disk("aws", (aws.volume_id,), False)
    if (iscsi := volume.iscsi) is not None:
        yield Disk("iscsi", (iscsi.iqn,), iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        for monitor in rbd.monitors:
            yield Disk("rbd", (monitor, rbd.pool, rbd.image), rbd.read_only)
