"""Plugins and queues of others: a package that is installed, named in the configuration, and runs."""

from __future__ import annotations

import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.objects import configuration, node, pod
from tests.e2e.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("kuberth_only")]

MODULE = '''
import dataclasses

from kuberth.api.core import Pod
from kuberth.framework import (
    Action, ClusterEvent, EnqueueExtensions, EventWithHint, FilterPlugin, Hint, PreFilterPlugin,
    QueueSortPlugin, Resource, ScorePlugin, Status,
)
from kuberth.queue.priority_queue import PriorityQueue


class Zoo(FilterPlugin, ScorePlugin, EnqueueExtensions):
    """Animals stay in their enclosure, and like the quiet one best."""

    name = "Zoo"

    def __init__(self, args, handle):
        self.label = args["label"]

    def filter(self, state, pod, node):
        if node.labels.get(self.label) != pod.metadata.labels.get(self.label):
            return Status.unschedulable("wrong enclosure")

    def score(self, state, pod, node):
        return 100 if node.labels.get("quiet") == "true" else 0

    def events_to_register(self):
        return [EventWithHint(ClusterEvent(Resource.NODE, Action.ADD), lambda pod, old, new: Hint.QUEUE)]


class WaitsForPaper(PreFilterPlugin, EnqueueExtensions):
    """Pending until a pod called "paper" exists anywhere."""

    name = "WaitsForPaper"

    def __init__(self, args, handle):
        self.pods = handle.stores.of(Pod)

    def pre_filter(self, state, pod, nodes):
        if pod.metadata.labels.get("wants") != "paper":
            return None
        if any(other.metadata.name == "paper" for other in self.pods):
            return None
        return Status.pending("there is no paper yet")

    def events_to_register(self):
        return [EventWithHint(ClusterEvent(Resource.POD, Action.ADD), lambda pod, old, new: Hint.QUEUE)]


class LastNameFirst(QueueSortPlugin):
    name = "LastNameFirst"

    def less(self, first, second):
        return first.pod.metadata.name > second.pod.metadata.name


class Backwards(PriorityQueue):
    def __init__(self, context):
        super().__init__(dataclasses.replace(context, sort=LastNameFirst()))
'''


ENTRY_POINTS = """[kuberth.plugins]
Zoo = zoo_plugins:Zoo
WaitsForPaper = zoo_plugins:WaitsForPaper
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the package."""
    folder = tmp_path_factory.mktemp("zoo")
    wheel = folder / "zoo_plugins-1.0-py3-none-any.whl"
    info = "zoo_plugins-1.0.dist-info"
    files = {
        "zoo_plugins.py": MODULE,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: zoo-plugins\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: e2e\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": ENTRY_POINTS,
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))
    site = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run([*pip, f"--target={site}", str(wheel)], check=True, timeout=120)
    return site


def test_a_plugin_of_an_installed_package_decides(
    cluster: Cluster, start_scheduler: StartScheduler, installed: Path
) -> None:
    cluster.create(node("loud", labels={"animal": "lion"}), node("aquarium", labels={"animal": "fish"}))
    cluster.create(node("quiet", labels={"animal": "lion", "quiet": "true"}))
    profile = {
        "schedulerName": "kuberth",
        "plugins": {"multiPoint": {"enabled": [{"name": "Zoo", "weight": 100}]}},
        "pluginConfig": [{"name": "Zoo", "args": {"label": "animal"}}],
    }
    start_scheduler(configuration(profile), env={"PYTHONPATH": str(installed)})
    cluster.create(*(pod(f"lion-{i}", scheduler="kuberth", labels={"animal": "lion"}) for i in range(4)))
    cluster.create(pod("penguin", scheduler="kuberth", labels={"animal": "penguin"}))
    assert set(cluster.wait_bound(*(f"lion-{i}" for i in range(4))).values()) == {"quiet"}
    assert "3 wrong enclosure" in cluster.wait_unschedulable("penguin")
    cluster.create(node("iceberg", labels={"animal": "penguin"}))
    assert cluster.wait_bound("penguin")["penguin"] == "iceberg"


def test_pending_skips_the_backoff(
    cluster: Cluster, start_scheduler: StartScheduler, installed: Path
) -> None:
    """KEP-4247: what a plugin calls Pending comes back at once, with nothing taken out of backoff early."""
    cluster.create(node("n0"))
    profile = {
        "schedulerName": "kuberth",
        "plugins": {"multiPoint": {"enabled": [{"name": "WaitsForPaper"}]}},
    }
    start_scheduler(
        configuration(profile, podInitialBackoffSeconds=30, podMaxBackoffSeconds=30),
        env={"PYTHONPATH": str(installed)},
        flags=["--feature-gates=SchedulerPopFromBackoffQ=false"],
    )
    cluster.create(pod("writer", scheduler="kuberth", labels={"wants": "paper"}))
    wait_for("the rejection", lambda: "no paper" in cluster.condition("writer").get("message", ""))
    started = time.monotonic()
    cluster.create(pod("paper", scheduler="kuberth", nodeName="n0"))
    cluster.wait_bound("writer", seconds=15)
    assert time.monotonic() - started < 10


def test_a_queue_of_an_installed_package_orders_the_pods(
    cluster: Cluster, start_scheduler: StartScheduler, installed: Path
) -> None:
    names = [f"pod-{i}" for i in range(6)]
    cluster.create(*(pod(name, scheduler="kuberth", cpu="300m") for name in names))
    cluster.create(node("n0", cpu="1"))  # room for three of the six
    start_scheduler(
        configuration(),
        env={"PYTHONPATH": str(installed)},
        flags=["--queue=zoo_plugins:Backwards"],
    )
    cluster.wait_unschedulable("pod-0")
    assert cluster.placements().keys() == {"pod-3", "pod-4", "pod-5"}
