from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.core import PersistentVolume, Volume
from kuberth.api.wire import convert, to_builtins
from kuberth.plugins.volumes.csi_migration import (
    TranslationError,
    plugin_of,
    translated_affinity,
)
from tests.unit.plugins.volume_objects import BETA_REGION, BETA_ZONE, REGION, ZONE, in_zone, make_volume

GKE_ZONE = "topology.gke.io/zone"


def gce(labels: dict[str, str] | None = None, **spec: Any) -> PersistentVolume:
    return make_volume("v", labels=labels, csi=False, gcePersistentDisk={"pdName": "disk"}, **spec)


@pytest.mark.parametrize(
    ("source", "driver", "handle"),
    [
        pytest.param({"awsElasticBlockStore": {"volumeID": "vol-1"}}, "ebs.csi.aws.com", "vol-1", id="ebs"),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}}, "ebs.csi.aws.com", "vol-1", id="ebs url"
        ),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "anything"}}, "ebs.csi.aws.com", "anything", id="ebs, other"
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            id="gce",
        ),
        pytest.param({"azureDisk": {"diskURI": "/d"}}, "disk.csi.azure.com", "/d", id="azure disk"),
        pytest.param(
            {"azureDisk": {"diskURI": "/d", "kind": "MANAGED"}},
            "disk.csi.azure.com",
            "/d",
            id="azure, managed",
        ),
        pytest.param({"cinder": {"volumeID": "c"}}, "cinder.csi.openstack.org", "c", id="cinder"),
        pytest.param({"portworxVolume": {"volumeID": "p"}}, "pxd.portworx.com", "p", id="portworx"),
    ],
)
def test_inline_volumes(source: dict[str, Any], driver: str, handle: str) -> None:
    volume = convert(Volume, {"name": "v", **source})
    plugin = plugin_of(volume)
    assert plugin is not None
    assert (plugin.driver, plugin.handle_of(volume)) == (driver, handle)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws://z/disk"}}, id="ebs: not a volume"),
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws://z/a/vol-1"}}, id="ebs: a deeper path"),
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws://[z/vol-1"}}, id="ebs: not a url"),
        pytest.param({"azureDisk": {"diskURI": "/d", "kind": "Shared"}}, id="azure: not managed"),
    ],
)
def test_volumes_without_an_equivalent(source: dict[str, Any]) -> None:
    volume = convert(Volume, {"name": "v", **source})
    plugin = plugin_of(volume)
    assert plugin is not None
    with pytest.raises(TranslationError):
        plugin.handle_of(volume)


def test_volumes_that_no_driver_took_over() -> None:
    assert plugin_of(convert(Volume, {"name": "v", "iscsi": {"iqn": "q"}})) is None
    assert plugin_of(make_volume("v")) is None


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        pytest.param({}, "zones/UNSPECIFIED", id="no zone"),
        pytest.param({ZONE: "us-e1-a"}, "zones/us-e1-a", id="a zone"),
        pytest.param({ZONE: "us-e1-a", BETA_ZONE: "us-e1-b"}, "zones/us-e1-b", id="the old label first"),
        pytest.param({ZONE: "us-e1-a__us-e1-b"}, "regions/us-e1", id="two zones of a region"),
    ],
)
def test_handle_of_a_gce_volume(labels: dict[str, str], place: str) -> None:
    volume = gce(labels)
    plugin = plugin_of(volume)
    assert plugin is not None
    assert plugin.handle_of(volume) == f"projects/UNSPECIFIED/{place}/disks/disk"


@pytest.mark.parametrize("zones", ["us-e1-a__us-w1-a", "a__b"], ids=["two regions", "no region in it"])
def test_a_gce_volume_of_no_single_region(zones: str) -> None:
    volume = gce({ZONE: zones})
    plugin = plugin_of(volume)
    assert plugin is not None
    with pytest.raises(TranslationError):
        translated_affinity(plugin, volume)


def terms(*expressions: tuple[str, list[str]]) -> list[dict[str, Any]]:
    listed = [{"key": key, "operator": "In", "values": values} for key, values in expressions]
    return [{"matchExpressions": listed}]


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        pytest.param(gce(), None, id="nothing known"),
        pytest.param(gce({ZONE: "us-e1-a"}), terms((GKE_ZONE, ["us-e1-a"])), id="from the label"),
        pytest.param(
            gce({ZONE: "us-e1-b__us-e1-a"}), terms((GKE_ZONE, ["us-e1-a", "us-e1-b"])), id="from the labels"
        ),
        pytest.param(gce(nodeAffinity=in_zone("a")), terms((GKE_ZONE, ["a"])), id="from the affinity"),
        pytest.param(
            gce({ZONE: "us-e1-a"}, nodeAffinity=in_zone("b")),
            terms((GKE_ZONE, ["b"])),
            id="the affinity goes before the label",
        ),
        pytest.param(
            gce({ZONE: "us-e1-a"}, nodeAffinity=in_zone("ssd", key="disk")),
            terms(("disk", ["ssd"]), (GKE_ZONE, ["us-e1-a"])),
            id="the label is added to another affinity",
        ),
        pytest.param(
            gce(nodeAffinity=in_zone("a", key=BETA_ZONE)), terms((GKE_ZONE, ["a"])), id="the old label"
        ),
        pytest.param(
            gce({BETA_ZONE: "us-e1-a"}, nodeAffinity=in_zone("r", key=BETA_REGION)),
            terms((REGION, ["r"]), (GKE_ZONE, ["us-e1-a"])),
            id="an old region becomes a new one",
        ),
        pytest.param(
            make_volume(
                "v", csi=False, labels={ZONE: "z"}, azureDisk={"diskURI": "/d"}, nodeAffinity=in_zone("a")
            ),
            terms((ZONE, ["a"])),
            id="azure keeps its affinity",
        ),
    ],
)
def test_affinity_in_the_drivers_topology(
    volume: PersistentVolume, expected: list[dict[str, Any]] | None
) -> None:
    plugin = plugin_of(volume)
    assert plugin is not None
    found = translated_affinity(plugin, volume)
    assert (None if found is None else to_builtins(found)["nodeSelectorTerms"]) == expected
