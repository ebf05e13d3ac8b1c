"""Several profiles in one scheduler, and two schedulers in one cluster."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import SECOND_SCHEDULER, UPSTREAM
from tests.e2e.objects import Object, configuration, node, pod

pytestmark = pytest.mark.e2e


def profile(name: str, strategy: str) -> Object:
    """A profile in which only the node's free queue counts."""
    resources = [{"name": "cpu", "weight": 1}]
    return {
        "schedulerName": name,
        "plugins": {
            "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 1}]},
            "preScore": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]},
        },
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {"scoringStrategy": {"type": strategy, "resources": resources}},
            }
        ],
    }


def test_each_profile_decides_by_its_own_rules(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    cluster.create(node("busy", cpu="8"), node("idle", cpu="8"))
    cluster.create(pod("tenant", scheduler="x", cpu="3", nodeName="busy"))
    start_scheduler(
        configuration(profile("packing", "MostAllocated"), profile("spreading", "LeastAllocated"))
    )
    cluster.create(pod("packed", scheduler="packing", cpu="1"))
    assert cluster.wait_bound("packed")["packed"] == "busy"
    cluster.create(pod("spread", scheduler="spreading", cpu="1"))
    assert cluster.wait_bound("spread")["spread"] == "idle"
    cluster.create(pod("stray", scheduler="no-such-profile"), pod("last", scheduler="packing"))
    cluster.wait_bound("last")
    assert "stray" not in cluster.placements()


def test_kube_scheduler_and_kuberth_side_by_side(
    cluster: Cluster, start_scheduler: StartScheduler, peer: str
) -> None:
    """Each binds its own pods, each pod once, and both see what the other has placed."""
    cluster.create(*(node(f"n{i}", cpu="4", pods=20) for i in range(4)))
    start_scheduler(configuration(), name="second")
    start_scheduler(
        configuration({"schedulerName": "default-scheduler"}), program=peer, user=UPSTREAM, name="default"
    )
    names = ["kuberth", "default-scheduler"]
    cluster.create(*(pod(f"pod-{i}", scheduler=names[i % 2], cpu="200m") for i in range(60)))
    cluster.wait_bound(seconds=60)
    cluster.assert_bound_once()
    owners = {bind.pod: bind.user for bind in cluster.binds() if bind.status == 201}
    assert owners == {f"pod-{i}": [SECOND_SCHEDULER, UPSTREAM][i % 2] for i in range(60)}
