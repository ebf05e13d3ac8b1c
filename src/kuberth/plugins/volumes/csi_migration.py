"""In-tree volumes as the CSI drivers that replaced the in-tree plugins see them.

In: an inline volume of a pod or a PersistentVolume with an in-tree source. Out: the plugin and its CSI
driver, the volume's handle there, and for a PersistentVolume its node affinity in the driver's topology.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from kuberth.api.core import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    Volume,
)
from kuberth.api.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE
from kuberth.errors import KuberthError

ZONE_DELIMITER: Final = "__"
"""Separates the zones of a volume in several zones."""

_UNSPECIFIED: Final = "UNSPECIFIED"
_EBS_VOLUME = re.compile(r"vol-[^/]*")


class TranslationError(KuberthError):
    """An in-tree volume cannot be translated to its CSI driver."""


def _ebs_handle(source: Any, _labels: Mapping[str, str]) -> str:
    """`aws://zone/vol-1` or `aws:///vol-1` is `vol-1`; anything without that scheme is a handle itself."""
    volume_id: str = source.volume_id
    if not volume_id.startswith("aws://"):
        return volume_id
    try:
        handle = unquote(urlsplit(volume_id).path).strip("/")
    except ValueError as exc:
        raise TranslationError(f"Invalid disk name ({volume_id}): {exc}") from exc
    if _EBS_VOLUME.fullmatch(handle) is None:
        raise TranslationError(f"Invalid format for AWS volume ({volume_id})")
    return handle


def _gce_handle(source: Any, labels: Mapping[str, str]) -> str:
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE, "")).split(ZONE_DELIMITER)
    place = f"regions/{_gce_region(zones)}" if len(zones) > 1 else f"zones/{zones[0] or _UNSPECIFIED}"
    return f"projects/{_UNSPECIFIED}/{place}/disks/{source.pd_name}"


def _gce_region(zones: Iterable[str]) -> str:
    regions = set()
    for zone in zones:
        locale, *rest = zone.split("-")
        if len(rest) != 2:
            raise TranslationError(f"zone in unexpected format, expected locale-region-zone, got: {zone}")
        regions.add(f"{locale}-{rest[0]}")
    if len(regions) != 1:
        raise TranslationError(f"zones of several regions: {', '.join(sorted(regions))}")
    return regions.pop()


def _azure_disk_handle(source: Any, _labels: Mapping[str, str]) -> str:
    if source.kind is not None and source.kind.lower() != "managed":
        raise TranslationError(f"kind({source.kind}) is not supported in csi migration")
    return str(source.disk_uri)


def _volume_id(source: Any, _labels: Mapping[str, str]) -> str:
    return str(source.volume_id)


@dataclass(frozen=True, slots=True)
class InTreeVolumePlugin:
    """One in-tree volume plugin. `source` is the field for its volumes in pods and PVs."""

    name: str
    source: str
    driver: str
    handle: Callable[[Any, Mapping[str, str]], str] | None = None
    """The CSI driver's name for a volume, from its source and the labels of its PV. None: the scheduler does
    not treat these volumes as those of the driver."""
    zone_key: str = ""
    """The driver's topology label for zones; empty if a volume's node affinity is not translated."""

    @property
    def is_migrated(self) -> bool:
        """Whether the scheduler treats its volumes as those of the CSI driver."""
        return self.handle is not None

    def handle_of(self, volume: Volume | PersistentVolume) -> str:
        """The CSI driver's name for an inline volume or a PV; raises `TranslationError`."""
        if self.handle is None:
            return ""
        if isinstance(volume, Volume):
            return self.handle(getattr(volume, self.source), {})
        return self.handle(getattr(volume.spec, self.source), volume.metadata.labels)


PLUGINS: Final = tuple(
    InTreeVolumePlugin(f"kubernetes.io/{name}", source, driver, handle, zone_key)
    for name, source, driver, handle, zone_key in (
        (
            "aws-ebs",
            "aws_elastic_block_store",
            "ebs.csi.aws.com",
            _ebs_handle,
            "topology.ebs.csi.aws.com/zone",
        ),
        ("gce-pd", "gce_persistent_disk", "pd.csi.storage.gke.io", _gce_handle, "topology.gke.io/zone"),
        ("azure-disk", "azure_disk", "disk.csi.azure.com", _azure_disk_handle, ""),
        (
            "cinder",
            "cinder",
            "cinder.csi.openstack.org",
            _volume_id,
            "topology.cinder.csi.openstack.org/zone",
        ),
        ("portworx-volume", "portworx_volume", "pxd.portworx.com", _volume_id, ""),
        ("azure-file", "azure_file", "file.csi.azure.com", None, ""),
        ("vsphere-volume", "vsphere_volume", "csi.vsphere.vmware.com", None, ""),
    )
)
BY_NAME: Final = {plugin.name: plugin for plugin in PLUGINS}


def plugin_of(volume: Volume | PersistentVolume) -> InTreeVolumePlugin | None:
    """The in-tree plugin of a pod's inline volume or a PV, if CSI drivers have replaced it."""
    holder = volume if isinstance(volume, Volume) else volume.spec
    return next((plugin for plugin in PLUGINS if getattr(holder, plugin.source) is not None), None)


def translated_affinity(plugin: InTreeVolumePlugin, volume: PersistentVolume) -> NodeSelector | None:
    """The volume's required node affinity in the driver's topology; None: any node.

    Raises `TranslationError`. The zones come from the affinity, or if it has none, from the volume's labels.
    """
    plugin.handle_of(volume)  # a volume that cannot be translated has no affinity either
    required = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    if not plugin.zone_key:
        return required
    terms = () if required is None else required.node_selector_terms
    labels = volume.metadata.labels
    zone, region = _topology_keys(terms, labels)
    if _values(terms, zone):
        terms = _renamed(terms, zone, plugin.zone_key)
    elif zone in labels:
        terms = _narrowed(terms, plugin.zone_key, labels[zone].split(ZONE_DELIMITER))
    if region == BETA_REGION and _values(terms, region):
        terms = _renamed(terms, region, REGION)
    if required is None and not terms:
        return None
    return NodeSelector(node_selector_terms=terms)


def _topology_keys(terms: Iterable[NodeSelectorTerm], labels: Mapping[str, str]) -> tuple[str, str]:
    """The labels for zone and region that the volume uses: those in its affinity first."""
    asked = {requirement.key for requirement in _requirements(terms)}
    for keys in (asked, labels):
        if ZONE in keys:
            return ZONE, REGION
        if BETA_ZONE in keys:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _requirements(terms: Iterable[NodeSelectorTerm]) -> Iterator[NodeSelectorRequirement]:
    return (requirement for term in terms for requirement in term.match_expressions)


def _values(terms: Iterable[NodeSelectorTerm], key: str) -> set[str]:
    return {value for one in _requirements(terms) if one.key == key for value in one.values}


def _renamed(terms: Iterable[NodeSelectorTerm], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    replace = msgspec.structs.replace
    return tuple(
        replace(
            term,
            match_expressions=tuple(
                replace(one, key=new) if one.key == old else one for one in term.match_expressions
            ),
        )
        for term in terms
    )


def _narrowed(
    terms: tuple[NodeSelectorTerm, ...], key: str, zones: Iterable[str]
) -> tuple[NodeSelectorTerm, ...]:
    """Every term (at least one) with the additional requirement to be in one of the zones."""
    values = tuple(sorted({stripped for zone in zones if (stripped := zone.strip())}))
    if not values:
        return terms
    within = NodeSelectorRequirement(key=key, operator="In", values=values)
    return tuple(
        msgspec.structs.replace(term, match_expressions=(*term.match_expressions, within))
        for term in terms or (NodeSelectorTerm(),)
    )
