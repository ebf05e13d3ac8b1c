"""The inventory follows changes: it then equals a new one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kuberth.api.core import Node
from kuberth.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from kuberth.api.wire import convert, to_builtins
from kuberth.config.feature_gates import FeatureGates
from kuberth.framework.handle import Handle
from kuberth.informers.store import Stores
from kuberth.plugins.devices.claims import EXTENDED_RESOURCE_CLAIM, UNSEEN_SECONDS, KnownClaims
from kuberth.plugins.devices.classes import KnownClasses
from kuberth.plugins.devices.inventory import Inventory
from kuberth.plugins.dynamic_resources.site_results import SearchBudget, SiteResultsCache
from kuberth.testing import FakeClock
from kuberth.testing.factories import make_node
from tests.unit.framework.harness import make_handle
from tests.unit.plugins.device_objects import (
    DRIVER,
    exactly,
    first_of,
    given,
    make_claim,
    make_class,
    make_slice,
)

NODES = ("a", "b", "c", "d")
ZONES = ("x", "y")
IN_ZONE = {"key": "zone", "operator": "In"}


class World:
    """Objects, an inventory that follows them, and what it says of every node."""

    def __init__(self, handle: Handle, *, like: KnownClaims | None = None) -> None:
        """`like`: with the same own writes."""
        self.handle = handle
        self.inventory = Inventory(handle)
        if like is not None:
            for claim in map(like.get_by_key, like.keys()):
                assert claim is not None
                self.inventory.claims.assume(claim)
            for claim in like.in_flight.values():
                self.inventory.claims.add_pending(claim)
        self.results_cache = SiteResultsCache(self.inventory)

    def devices_found(self, *claims: ResourceClaim) -> dict[str, Any]:
        self.inventory.refresh()
        table, results = self.handle.cluster, self.results_cache.of([claim.spec for claim in claims])
        devices_found = {}
        for node in table.all_nodes():
            site = int(self.inventory.sites.of_row[node.row])
            results.update(np.array([site]), SearchBudget(None))
            found = results.found[site]
            devices_found[node.name] = (
                results.codes[site],
                found and [[pick.device.id for pick in picks] for picks in found.picks],
            )
        return devices_found


DEMANDS = (
    [make_claim("one", exactly())],
    [make_claim("two", exactly(count=2)), make_claim("more", exactly())],
    [make_claim("listed", first_of("q", exactly("many", 3), exactly("few")))],
)


class Changes:
    """Changes at random, of everything there is."""

    def __init__(self, seed: int, handle: Handle, inventory: Inventory) -> None:
        self._random = random.Random(seed)
        self._handle = handle
        self._stores, self._table = handle.stores, handle.cluster
        self._claims = inventory.claims
        self._number = 0

    def happen(self) -> None:
        chance = self._random
        what = chance.choice(
            (self._node, self._local_slice, self._shared_slice, self._claim, self._claim, self._flight)
        )
        what()

    def _node(self) -> None:
        name = self._random.choice(NODES)
        node = make_node(name, labels={"zone": self._random.choice(ZONES)})
        if self._random.random() < 0.2:
            self._stores.of(Node).remove(node)
            self._table.remove_node(name)
        else:
            self._stores.of(Node).set(node)
            self._table.set_node(node)

    def _local_slice(self) -> None:
        name = self._random.choice(NODES)
        made = make_slice(name, self._random.randint(0, 3), generation=self._random.randint(1, 2))
        self._keep(self._stores.of(ResourceSlice), made)

    def _shared_slice(self) -> None:
        part = self._random.randint(0, 1)
        requirement = {**IN_ZONE, "values": [self._random.choice(ZONES)]}
        where: dict[str, Any] = self._random.choice(
            (
                {},
                {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}},
            )
        )
        devices = [{"name": f"net-{part}-{n}"} for n in range(self._random.randint(1, 2))]
        if self._random.random() < 0.3:
            where = {"perDeviceNodeSelection": True}
            devices = [{**device, "nodeName": self._random.choice(NODES)} for device in devices]
        made = make_slice(
            None,
            devices,
            name=f"net-{part}",
            pool="net",
            count=self._random.randint(1, 2),
            **where,
        )
        self._keep(self._stores.of(ResourceSlice), made)

    def _claim(self) -> None:
        name = f"claim-{self._random.randint(0, 5)}"
        where = self._random.choice((*NODES, "net"))
        device = self._random.choice(("dev-0", "dev-1", "net-0-0", "net-1-0"))
        self._number += 1
        version = {"resourceVersion": str(self._number)}
        status = given(device, pool=where) if self._random.random() < 0.8 else None
        made = make_claim(name, exactly(), status=status, metadata=version)
        if self._random.random() < 0.3:
            self._claims.assume(made)
        else:
            self._keep(self._stores.of(ResourceClaim), made)

    def _flight(self) -> None:
        name = f"flight-{self._random.randint(0, 2)}"
        made = make_claim(name, exactly(), status=given("dev-0", pool=self._random.choice(NODES)))
        if made.metadata.uid in self._claims.in_flight:
            self._claims.end_pending(made.metadata.uid)
        else:
            self._claims.add_pending(made)

    def _keep(self, store: Any, made: Any) -> None:
        if self._random.random() < 0.25:
            store.remove(made)
        else:
            store.set(made)


@pytest.mark.parametrize("seed", range(40))
def test_the_cached_inventory_equals_a_new_one(seed: int) -> None:
    handle = make_handle()
    handle.stores.of(DeviceClass).set(make_class())
    world = World(handle)
    changes = Changes(seed, handle, world.inventory)
    for _ in range(40):
        changes.happen()
        for claims in DEMANDS:
            devices_found = world.devices_found(*claims)
            assert devices_found == World(handle, like=world.inventory.claims).devices_found(*claims)


def test_nodes_without_devices_are_one_site() -> None:
    handle = make_handle()
    for number in range(100):
        handle.cluster.set_node(make_node(f"n{number}"))
    handle.stores.of(ResourceSlice).set(make_slice("n7"))
    inventory = Inventory(handle)
    inventory.refresh()
    assert len(inventory.sites.sites) == 2
    handle.stores.of(ResourceSlice).set(make_slice(None, 3, pool="net"))
    inventory.refresh()
    assert len(inventory.sites.sites) == 2


def test_taking_a_device_concerns_its_own_site_alone() -> None:
    handle = make_handle()
    for name in NODES:
        handle.cluster.set_node(make_node(name))
        handle.stores.of(ResourceSlice).set(make_slice(name))
    inventory = Inventory(handle)
    inventory.refresh()
    before = inventory.sites.changed_at.copy()
    inventory.claims.add_pending(make_claim("c", status=given("dev-0", node="b")))
    inventory.refresh()
    row = handle.cluster.row_of("b")
    assert np.flatnonzero(inventory.sites.changed_at != before).tolist() == [inventory.sites.of_row[row]]


def test_rules_taint_devices_while_they_are_there() -> None:
    handle = make_handle(gates=FeatureGates({"DRADeviceTaintRules": True}))
    for name in ("a", "b"):
        handle.cluster.set_node(make_node(name))
        handle.stores.of(ResourceSlice).set(make_slice(name))
    handle.stores.of(DeviceClass).set(make_class())
    world = World(handle)

    def given_on(*names: str) -> None:
        devices_found = world.devices_found(make_claim("one", exactly()))
        assert {name for name, (code, _found) in devices_found.items() if not code} == set(names)

    rules = handle.stores.of(DeviceTaintRule)
    tree = {
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"pool": "a"}, "taint": {"key": "broken", "effect": "NoSchedule"}},
    }
    given_on("a", "b")
    rules.set(convert(DeviceTaintRule, tree))
    given_on("b")
    tree["spec"] = {"taint": {"key": "broken", "effect": "NoExecute"}}
    rules.set(convert(DeviceTaintRule, tree))
    given_on()
    rules.remove(convert(DeviceTaintRule, tree))
    given_on("a", "b")


def version(claim: ResourceClaim | None) -> str | None:
    return None if claim is None else claim.metadata.resource_version


def claim_at(number: int, **metadata: Any) -> ResourceClaim:
    return make_claim("c", metadata={"resourceVersion": str(number), **metadata})


class TestKnownClaims:
    def test_what_was_written_hides_what_is_older(self) -> None:
        claims = KnownClaims(Stores().of(ResourceClaim), FakeClock())
        claims.store.set(claim_at(1))
        claims.assume(claim_at(3))
        assert version(claims.get("c", namespace="default")) == "3"
        claims.store.set(claim_at(2))
        assert version(claims.get("c", namespace="default")) == "3"
        claims.store.set(claim_at(4))
        assert version(claims.get("c", namespace="default")) == "4"

    def test_an_old_answer_changes_nothing(self) -> None:
        claims = KnownClaims(Stores().of(ResourceClaim), FakeClock())
        claims.store.set(claim_at(5))
        claims.assume(claim_at(4))
        assert version(claims.get("c", namespace="default")) == "5"

    def test_another_claim_of_the_same_name_is_another_claim(self) -> None:
        claims = KnownClaims(Stores().of(ResourceClaim), FakeClock())
        claims.store.set(claim_at(1))
        claims.assume(claim_at(9))
        claims.store.set(claim_at(3, uid="another"))
        assert version(claims.get("c", namespace="default")) == "3"

    def test_a_claim_that_is_gone_is_gone(self) -> None:
        claims = KnownClaims(Stores().of(ResourceClaim), FakeClock())
        claims.store.set(claim_at(1))
        claims.assume(claim_at(2))
        assert version(claims.get("c", namespace="default")) == "2"
        claims.store.remove(claim_at(1))
        assert claims.get("c", namespace="default") is None

    def test_a_claim_just_created_is_believed_in_for_a_while(self) -> None:
        clock = FakeClock()
        claims = KnownClaims(Stores().of(ResourceClaim), clock)
        claims.assume(claim_at(1))
        assert version(claims.get("c", namespace="default")) == "1"
        claims.take_changes()
        clock.advance(UNSEEN_SECONDS + 1)
        assert claims.take_changes()[0] == {"default/c"}
        assert claims.get("c", namespace="default") is None


def test_the_claim_made_for_a_pod_is_found_by_the_pod() -> None:
    handle = make_handle()
    store = handle.stores.of(ResourceClaim)
    made = {"annotations": {EXTENDED_RESOURCE_CLAIM: "true"}}
    store.set(make_claim("made", owner="pod", metadata=made))
    store.set(make_claim("plain", owner="other"))
    inventory = Inventory(handle)
    inventory.refresh()
    found = inventory.claim_created_for("pod")
    assert found is not None
    assert found.metadata.name == "made"
    assert inventory.claim_created_for("other") is None
    store.remove(found)
    inventory.refresh()
    assert inventory.claim_created_for("pod") is None


def test_of_two_classes_behind_a_resource_the_newer_counts() -> None:
    store = Stores().of(DeviceClass)
    classes = KnownClasses(store)
    old, new = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    for name, created in (("b", old), ("a", old), ("c", new)):
        made = make_class(name, extendedResourceName="example.com/gpu")
        store.set(_created(made, created))
    found = classes.behind("example.com/gpu")
    assert found is not None
    assert found.metadata.name == "c"
    store.remove(found)
    found = classes.behind("example.com/gpu")
    assert found is not None
    assert found.metadata.name == "a"
    implicit = classes.behind("deviceclass.resource.kubernetes.io/b")
    assert implicit is not None
    assert implicit.metadata.name == "b"


def _created(made: DeviceClass, when: str) -> DeviceClass:
    tree = to_builtins(made)
    tree["metadata"]["creationTimestamp"] = when
    return convert(DeviceClass, tree)


def test_devices_of_a_class_are_counted_for_scores() -> None:
    handle = make_handle()
    table = handle.cluster
    for name in NODES[:3]:
        table.set_node(make_node(name, labels={"zone": "x"}))
    slices = handle.stores.of(ResourceSlice)
    slices.set(make_slice("a", 3))
    slices.set(make_slice(None, 1, pool="net"))
    handle.stores.of(ResourceClaim).set(make_claim("c", status=given("dev-1", node="a")))
    inventory = Inventory(handle)
    offered, taken = inventory.totals(make_class(), table.all_nodes())
    counts = {node.name: (offered[place], taken[place]) for place, node in enumerate(table.all_nodes())}
    assert counts == {"a": (4, 1), "b": (1, 0), "c": (1, 0)}
    flying = make_claim("d", status=given("dev-2", "dev-0", node="a"))
    inventory.claims.add_pending(flying)
    only_a = table.nodes_named(["a"])
    assert [column.tolist() for column in inventory.totals(make_class(), only_a)] == [[4], [3]]
    inventory.claims.end_pending(flying.metadata.uid)
    assert [column.tolist() for column in inventory.totals(make_class(), only_a)] == [[4], [1]]
    broken = make_class("broken", selectors=["device.driver =="])
    assert not inventory.totals(broken, table.all_nodes())[0].any()
    assert DRIVER in {slice_.pool_id[0] for slice_ in inventory.sites.slices()}
