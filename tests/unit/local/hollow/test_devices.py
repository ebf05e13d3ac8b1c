"""The file of devices: its content, and the errors for one that cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kuberth.errors import ConfigError
from kuberth.local.hollow.devices import Driver, load_devices


def driver(*pools: Any, **fields: Any) -> dict[str, Any]:
    return {"drivers": [{"name": "gpu.example.com", "pools": list(pools), **fields}]}


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def only(tree: dict[str, Any]) -> Driver:
    (found,) = load_devices(tree)
    return found


def test_plain_values_become_what_the_api_has() -> None:
    device = {
        "name": "gpu",
        "count": 2,
        "attributes": {"model": "h200", "index": 7, "ecc": True, "firmware": {"version": "1.2.3"}},
        "capacity": {"memory": "141Gi", "shares": {"value": 4}},
        "consumesCounters": [{"counterSet": "set", "counters": {"memory": "10Gi"}}],
    }
    (pool,) = only(driver({"devices": [device]})).pools
    first, second = pool.trees
    assert (first["name"], second["name"]) == ("gpu-0", "gpu-1")
    assert first["attributes"] == {
        "model": {"string": "h200"},
        "index": {"int": 7},
        "ecc": {"bool": True},
        "firmware": {"version": "1.2.3"},
    }
    assert first["capacity"] == {"memory": {"value": "141Gi"}, "shares": {"value": "4"}}
    assert first["consumesCounters"] == [{"counterSet": "set", "counters": {"memory": {"value": "10Gi"}}}]


@pytest.mark.parametrize(
    "nodes, takes",
    [
        ({}, {"gpu-1", "gpu-2", "cpu-1"}),
        ({"name": "gpu-*"}, {"gpu-1", "gpu-2"}),
        ({"shape": "cpu"}, {"cpu-1"}),
        ({"labels": {"zone": "a"}}, {"gpu-1", "cpu-1"}),
        ({"name": "gpu-*", "labels": {"zone": "a"}}, {"gpu-1"}),
    ],
)
def test_which_nodes_have_a_pool(nodes: dict[str, Any], takes: set[str]) -> None:
    found = only(driver({"nodes": nodes, "devices": [{"name": "d"}]}))
    shape = "node.kubernetes.io/instance-type"
    there = [
        node("gpu-1", zone="a", **{shape: "hollow.gpu"}),
        node("gpu-2", zone="b", **{shape: "hollow.gpu"}),
        node("cpu-1", zone="a", **{shape: "hollow.cpu"}),
    ]
    assert {name for each in there for name in found.pools_on(each)} == takes


def test_of_pools_of_one_name_a_node_has_the_first() -> None:
    pools = [
        {"nodes": {"name": "big-*"}, "devices": [{"name": "big"}]},
        {"devices": [{"name": "small"}]},
        {"name": "extra", "devices": [{"name": "extra"}]},
        {"name": "fabric", "allNodes": True, "devices": [{"name": "nic"}]},
    ]
    found = only(driver(*pools))
    names = {name: pool.trees[0]["name"] for name, pool in found.pools_on(node("big-1")).items()}
    assert names == {"big-1": "big", "big-1/extra": "extra"}
    assert found.pools_on(node("other"))["other"].trees[0]["name"] == "small"
    assert list(found.network_pools()) == ["fabric"]


@pytest.mark.parametrize(
    "fields, lengths",
    [({}, [128, 128, 44]), ({"taints": [{"key": "k", "effect": "NoSchedule"}]}, [64, 64, 64, 64, 44])],
)
def test_slices_hold_what_the_limits_allow(fields: dict[str, Any], lengths: list[int]) -> None:
    (pool,) = only(driver({"devices": [{"name": "d", "count": 300, **fields}]})).pools
    assert [len(part["devices"]) for part in pool.slices()] == lengths


def test_counters_have_slices_of_their_own() -> None:
    counters = [{"name": "c", "counters": {"memory": "40Gi"}}]
    (pool,) = only(driver({"sharedCounters": counters, "devices": [{"name": "d"}]})).pools
    assert [list(part) for part in pool.slices()] == [["sharedCounters"], ["devices"]]


def test_a_class_without_selectors_has_the_devices_of_its_driver() -> None:
    (made,) = only(driver(classes=[{"name": "gpu"}])).device_classes()
    assert made["spec"]["selectors"][0]["cel"]["expression"] == 'device.driver == "gpu.example.com"'


ONE = {"name": "d"}


@pytest.mark.parametrize(
    "tree, problem",
    [
        ([], "devices: expected a mapping, got an empty list"),
        ({"driver": []}, 'driver: unknown field; did you mean "drivers"?'),
        ({"drivers": {}}, "drivers: expected a list"),
        ({"drivers": [{}]}, "drivers[0].name: required, but missing"),
        ({"drivers": [{"name": 3}]}, "drivers[0].name: expected a string, got 3"),
        ({"drivers": [{"name": "a"}, {"name": "a"}]}, "more than one of the drivers is called a"),
        (driver({"device": []}), "drivers[0].pools[0].device: unknown field; did you mean"),
        (driver({}), "drivers[0].pools[0].devices: required, but missing"),
        (driver({"devices": []}), "drivers[0].pools[0]: devices: a pool has devices"),
        (driver({"nodes": {}, "allNodes": True, "devices": [ONE]}), "nodes and allNodes exclude each other"),
        (driver({"allNodes": True, "devices": [ONE]}), "drivers[0].pools[0]: name: expected text"),
        (driver({"name": "n", "allNodes": False, "devices": [ONE]}), "pools[0]: allNodes: expected true"),
        (
            driver({"nodes": {"zone": "a"}, "devices": [ONE]}),
            "nodes.zone: unknown field; known are name, shape",
        ),
        (
            driver({"devices": [{"name": "d", "count": 0}]}),
            "devices[0].count: expected an integer >= 1",
        ),
        (
            driver({"devices": [{"name": "d", "count": True}]}),
            "devices[0].count: expected an integer, got",
        ),
        (driver({"devices": [ONE, ONE]}), "pools[0]: more than one of the devices is called d"),
        (driver({"devices": [{**ONE, "attributes": {"a": 1.5}}]}), "attributes.a: expected text, a whole"),
        (driver({"devices": [{**ONE, "capacity": {"m": "lots"}}]}), "devices[0]: capacity.m: "),
        (driver({"devices": [{**ONE, "capacity": {"m": None}}]}), "capacity.m: expected a quantity"),
        (driver({"devices": [ONE], "sharedCounters": [{"name": "c"}]}), "counters: required, but missing"),
        (driver(classes=[{"selectors": []}]), "drivers[0].classes[0].name: required, but missing"),
        (driver(classes=[{"name": "a"}, {"name": "a"}]), "more than one of the classes is called a"),
    ],
)
def test_problems_are_reported_with_their_place(tree: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_devices(tree)
    assert problem in str(error.value)


def test_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "devices.yaml"
    path.write_text("drivers: [{name: a, pools: [{}]}]", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"devices\.yaml: drivers\[0\]\.pools\[0\]\.devices: "):
        load_devices(path)
    path.write_text("drivers: [", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"devices\.yaml: "):
        load_devices(path)
    with pytest.raises(ConfigError, match="cannot read devices"):
        load_devices(tmp_path / "none.yaml")
