"""Nodes that see the same pools are found together, with the answers that each alone would get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.api.resource import ResourceSlice
from kuberth.cel.selector import DeviceContent
from kuberth.cluster.table import ClusterTable
from kuberth.informers.store import Store
from kuberth.plugins.devices import sites as sites_module
from kuberth.plugins.devices import slices as slices_module
from kuberth.plugins.devices.sites import Site, Sites
from kuberth.plugins.devices.slices import pool_of
from kuberth.testing.factories import make_node
from tests.unit.plugins.device_objects import make_slice

ZONES = ("x", "y")
NODES = [(f"n{number}", ZONES[number % 2]) for number in range(6)]


def in_zone(zone: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]
    return {"nodeSelectorTerms": terms}


def table() -> ClusterTable:
    made = ClusterTable()
    for name, zone in NODES:
        made.set_node(make_node(name, labels={"zone": zone}))
    return made


def sites_of(slices: Sequence[ResourceSlice], *, one_by_one: bool = False) -> list[Any]:
    """What every node sees: its pools, and which of their devices it can use."""
    store: Store[ResourceSlice] = Store()
    for each in slices:
        store.set(each)
    cluster = table()
    sites = Sites(store, cluster)
    sites.refresh()
    if one_by_one:
        for row in range(len(NODES)):
            sites._assign(np.array([row]))
    return [seen(sites.sites[int(sites.of_row[row])]) for row in range(len(NODES))]


def seen(site: Site) -> Any:
    pools = [(pool.id, pool.is_usable, pool.invalid_reason) for pool in site.pools]
    return pools, [(each.device.id, each.is_reachable) for each in site.candidates], site.problem


DEVICE = st.one_of(
    st.just({}),
    st.sampled_from(ZONES).map(lambda zone: {"nodeSelector": in_zone(zone)}),
    st.just({"allNodes": True}),
)


@st.composite
def slices(draw: st.DrawFn) -> list[ResourceSlice]:
    made = []
    for number in range(draw(st.integers(0, 8))):
        pool = draw(st.sampled_from(["p", "q", "r"]))
        kind = draw(st.sampled_from(["all", "zone", "node", "devices"]))
        common: dict[str, Any] = {"name": f"s{number}", "pool": pool, "count": draw(st.integers(1, 2))}
        if kind == "all":
            made.append(make_slice(None, 2, **common))
        elif kind == "zone":
            made.append(make_slice(None, 2, nodeSelector=in_zone(draw(st.sampled_from(ZONES))), **common))
        elif kind == "node":
            made.append(make_slice(draw(st.sampled_from([name for name, _ in NODES])), 2, **common))
        else:
            where = [draw(DEVICE) or {"nodeName": "n1"} for _ in range(2)]
            devices = [{"name": f"d{index}", **each} for index, each in enumerate(where)]
            made.append(make_slice(None, devices, perDeviceNodeSelection=True, **common))
    return made


@given(slices())
def test_together_or_one_by_one(drawn: list[ResourceSlice]) -> None:
    assert sites_of(drawn) == sites_of(drawn, one_by_one=True)


def test_pools_for_all_nodes_are_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    site = Sites._site

    def count(self: Sites, *args: Any) -> Site:
        nonlocal calls
        calls += 1
        return site(self, *args)

    monkeypatch.setattr(Sites, "_site", count)
    for_all = [make_slice(None, 2, pool=f"p{number}") for number in range(20)]
    found = sites_of(for_all)
    assert calls == 1
    assert all(each == found[0] for each in found)
    calls = 0
    sites_of([*for_all, make_slice(None, 2, pool="zoned", nodeSelector=in_zone("x")), make_slice("n0", 1)])
    assert calls == 3, "one for each zone, and one for the node with a device of its own"


def test_pools_of_other_drivers_are_kept_when_one_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    of_pool = pool_of

    def note(pool_id: Any, *args: Any) -> Any:
        read.append(pool_id[1])
        return of_pool(pool_id, *args)

    monkeypatch.setattr(sites_module, "pool_of", note)
    store: Store[ResourceSlice] = Store()
    for number in range(5):
        store.set(make_slice(None, 2, pool=f"p{number}"))
    sites = Sites(store, table())
    sites.refresh()
    assert sorted(read) == ["p0", "p1", "p2", "p3", "p4"]
    read.clear()
    store.set(make_slice(None, 3, pool="p3", generation=2))
    sites.refresh()
    assert read == ["p3"]
    assert len(sites.sites[int(sites.of_row[0])].candidates) == 4 * 2 + 3


def test_pools_that_no_node_sees_any_more_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites_module, "_ABANDONED", 3)
    store: Store[ResourceSlice] = Store()
    zones = [{"name": f"d{zone}", "nodeSelector": in_zone(f"z{zone}")} for zone in range(20)]
    store.set(make_slice(None, zones, pool="p", perDeviceNodeSelection=True))
    cluster = table()
    sites = Sites(store, cluster)
    for turn in range(20):
        for name, _zone in NODES:
            cluster.set_node(make_node(name, labels={"zone": f"z{turn}"}))
        store.set(make_slice(None, 1, pool="q", generation=turn + 1))
        sites.refresh()
    assert len(sites._pools) <= 2 + 3 + 2


def test_what_selectors_see_is_made_when_one_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Counted(DeviceContent):
        def __init__(self, driver: str, **more: Any) -> None:
            made.append(driver)
            super().__init__(driver, **more)

    monkeypatch.setattr(slices_module, "DeviceContent", Counted)
    store: Store[ResourceSlice] = Store()
    for number in range(100):
        store.set(make_slice("n0", 16, name=f"slice-{number}", pool=f"pool-{number}"))
    sites = Sites(store, table())
    sites.refresh()
    assert made == []
    device = next(sites.slices()).devices[0]
    assert device.content is device.content
    assert len(made) == 1
