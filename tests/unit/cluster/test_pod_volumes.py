from __future__ import annotations

from typing import Any

import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.pod_volumes import Disk
from kuberth.cluster.table import ClusterTable
from kuberth.testing.factories import make_node, make_pod


@pytest.mark.parametrize(
    ("source", "attachable"),
    [
        pytest.param({"persistentVolumeClaim": {"claimName": "c"}}, True, id="a claim"),
        pytest.param({"ephemeral": {}}, True, id="ephemeral"),
        pytest.param({"azureFile": {"shareName": "x"}}, True, id="migrated"),
        pytest.param({"iscsi": {"iqn": "q"}}, False, id="not migrated"),
        pytest.param({"csi": {"driver": "d"}}, False, id="inline CSI"),
        pytest.param({"projected": {}}, False, id="projected"),
    ],
)
def test_attachable_volumes(source: dict[str, Any], attachable: bool) -> None:
    info = PodInfo(make_pod("p", volumes=[{"name": "v", **source}]))
    assert [volume.name for volume in info.attachable_volumes] == (["v"] if attachable else [])


def test_disks_are_counted_where_their_pods_are() -> None:
    table = ClusterTable()
    row = table.set_node(make_node("n"))
    rbd = {"monitors": ["m1", "m2"], "pool": "p", "image": "i", "readOnly": True}
    info = PodInfo(make_pod("p", node="n", volumes=[{"name": "v", "rbd": rbd}]))
    disks = [Disk("rbd", (monitor, "p", "i"), True) for monitor in ("m1", "m2")]
    assert info.disks == tuple(disks)
    table.add_pod(info)
    assert [table.disks[disk][row] for disk in disks] == [1, 1]
    with table.what_if() as what_if:
        what_if.remove_pod(info, row)
        assert not table.disks
    assert set(table.disks) == set(disks)
    table.remove_pod(info.uid)
    assert not table.disks


@pytest.mark.parametrize(
    ("read_only", "excluded"),
    [pytest.param(True, [False], id="a reader"), pytest.param(False, [False, True], id="a writer")],
)
def test_disks_that_exclude_each_other(read_only: bool, excluded: list[bool]) -> None:
    disk = Disk("gce", ("d",), read_only)
    assert [other.read_only for other in disk.conflicting] == excluded
