"""Columns of CSINodes, held against the objects themselves."""

from __future__ import annotations

import random

import pytest

from kuberth.api.storage import CSINode
from kuberth.api.wire import convert
from kuberth.cluster.table import ClusterTable
from kuberth.informers.store import Store
from kuberth.plugins.volumes import csi_nodes
from kuberth.plugins.volumes.csi_nodes import MIGRATED_PLUGINS, NO_LIMIT, CSINodeColumns
from kuberth.testing import make_node

DRIVERS = tuple(f"{letter}.example.com" for letter in "abcdef")


def csi_node(name: str, drawn: random.Random) -> CSINode:
    drivers = [
        {"name": driver, "nodeID": name, **drawn.choice([{}, {"allocatable": {"count": drawn.randrange(9)}}])}
        for driver in drawn.sample(DRIVERS, drawn.randrange(len(DRIVERS)))
    ]
    metadata = {"name": name, "annotations": drawn.choice([{}, {MIGRATED_PLUGINS: "kubernetes.io/aws-ebs"}])}
    return convert(CSINode, {"metadata": metadata, "spec": {"drivers": drivers}})


@pytest.mark.parametrize("most", [1, 3, 256])
def test_columns_say_what_the_objects_say(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few drivers have columns at a time, and whatever changed since they were asked about."""
    monkeypatch.setattr(csi_nodes, "_MAX_DRIVERS", most)
    drawn, table, store = random.Random(most), ClusterTable(), Store[CSINode]()
    columns = CSINodeColumns(table, store)
    names: list[str] = []
    for step in range(300):
        match drawn.randrange(4):
            case 0:
                names.append(f"node-{step}")
                table.set_node(make_node(names[-1]))
            case 1 if names:
                table.remove_node(names.pop(drawn.randrange(len(names))))
            case 2 if names:
                store.set(csi_node(drawn.choice(names), drawn))
            case 3 if len(store):
                store.remove(drawn.choice(store.snapshot()))
        columns.refresh()
        for name in names:
            row, found = table.row_of(name), store.get(name)
            assert row is not None
            listed = (
                {} if found is None else {driver.name: driver.allocatable for driver in found.spec.drivers}
            )
            assert columns.known[row] == (found is not None)
            assert columns.has_limits()[row] == any(limit is not None for limit in listed.values())
            for driver in drawn.sample(DRIVERS, 2):
                limit = listed.get(driver)
                assert columns.installed(driver)[row] == (driver in listed)
                assert columns.limit(driver)[row] == (NO_LIMIT if limit is None else limit.count)
