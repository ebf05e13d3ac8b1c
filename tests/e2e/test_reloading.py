"""`kuberth run` on a real API server while its configuration changes: a signal, a saved file, a bad one."""

from __future__ import annotations

import json
import signal

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import ADMIN, token_of
from tests.e2e.objects import Object, configuration, node, pod
from tests.e2e.schedulers import RunningScheduler
from tests.e2e.waiting import wait_for

pytestmark = pytest.mark.e2e


def on_zone(zone: str) -> Object:
    """A profile whose pods want to be in one zone."""
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    args = {"addedAffinity": affinity}
    return {"schedulerName": "kuberth", "pluginConfig": [{"name": "NodeAffinity", "args": args}]}


def save(scheduler: RunningScheduler, profile: Object) -> None:
    tree = json.loads(scheduler.config_file.read_text(encoding="utf-8"))
    scheduler.config_file.write_text(json.dumps({**tree, "profiles": [profile]}), encoding="utf-8")


def reloads(scheduler: RunningScheduler, result: str, *, wanted: int) -> None:
    def counted() -> bool:
        return scheduler.metric("kuberth_configuration_reloads_total", result=result) >= wanted

    wait_for(f"reload {wanted} with {result}", counted, seconds=30, explain=scheduler.process.tail)


def test_a_saved_file_and_a_signal_bring_new_rules(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    cluster.create(*(node(f"n-{zone}", cpu="8", labels={"zone": zone}) for zone in "ab"))
    scheduler = start_scheduler(configuration(on_zone("a")))
    cluster.create(pod("first", scheduler="kuberth"))
    assert cluster.wait_bound("first")["first"] == "n-a"

    save(scheduler, on_zone("c"))
    reloads(scheduler, "success", wanted=1)
    cluster.create(pod("waits", scheduler="kuberth"))
    cluster.wait_unschedulable("waits")
    save(scheduler, on_zone("b"))
    reloads(scheduler, "success", wanted=2)
    assert cluster.wait_bound("waits")["waits"] == "n-b"

    save(scheduler, {**on_zone("a"), "percentageOfNodesToScore": 300})
    reloads(scheduler, "error", wanted=1)
    cluster.create(pod("still", scheduler="kuberth"))
    assert cluster.wait_bound("still")["still"] == "n-b"
    assert "percentageOfNodesToScore" in scheduler.process.tail()

    scheduler.process.signal(signal.SIGHUP)
    reloads(scheduler, "error", wanted=2)
    save(scheduler, on_zone("a"))
    reloads(scheduler, "success", wanted=3)
    cluster.create(pod("last", scheduler="kuberth"))
    assert cluster.wait_bound("last")["last"] == "n-a"
    _status, page = scheduler.serves("/configz", token=token_of(ADMIN))
    assert '"values":["a"]' in page.replace(" ", "")
    cluster.assert_bound_once()
