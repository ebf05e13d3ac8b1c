"""5,000 nodes and 5,000 pending pods on a real API server. Only on request: pytest -m scale tests/e2e

KUBERTH_E2E_PROGRAM=kube-scheduler gives the peer's figures on the same load.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.e2e.assets import REPOSITORY, Assets
from tests.e2e.control_plane import SECOND_SCHEDULER, ControlPlane
from tests.e2e.history import PodHistory
from tests.e2e.objects import ZONE, Object, configuration, node, pod
from tests.e2e.schedulers import RunningScheduler, program_under_test
from tests.e2e.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.scale]

NODES = int(os.environ.get("KUBERTH_E2E_NODES", "5000"))
PODS = int(os.environ.get("KUBERTH_E2E_PODS", "5000"))
NAMESPACE = "default"
NODE_MILLI_CPU = 4000


@pytest.fixture
def empty_control_plane(assets: Assets, tmp_path: Path) -> Iterator[ControlPlane]:
    """One of its own, without an audit log: the API server is to spend its time on the scheduler."""
    control_plane = ControlPlane(tmp_path, assets, audit=False)
    control_plane.start()
    try:
        control_plane.kubectl("apply", "-k", str(REPOSITORY / "deploy" / "second-scheduler"))
        yield control_plane
    finally:
        control_plane.stop()


def create_all(control_plane: ControlPlane, objects: Iterable[Object]) -> None:
    waiting = iter(list(objects))
    lock = threading.Lock()
    problems: list[Exception] = []

    def work() -> None:
        client = control_plane.client()
        try:
            while True:
                with lock:
                    obj = next(waiting, None)
                if obj is None:
                    return
                client.create(obj)
        except Exception as problem:
            problems.append(problem)
        finally:
            client.close()

    threads = [threading.Thread(target=work, name=f"create {i}") for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert not problems, problems[0]


def make_pod(i: int) -> Object:
    """A mix of sizes, so that nodes fill up unevenly."""
    tree = pod(f"pod-{i:05d}", scheduler="kuberth", cpu=f"{100 * (1 + i % 7)}m", labels={"app": f"a{i % 10}"})
    return {**tree, "metadata": {**tree["metadata"], "namespace": NAMESPACE}}


def milli_cpu(tree: Object) -> int:
    return int(tree["spec"]["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m"))


def test_five_thousand_pods_on_five_thousand_nodes(
    empty_control_plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    control_plane = empty_control_plane
    pods = [make_pod(i) for i in range(PODS)]
    create_all(
        control_plane,
        (
            node(f"node-{i:05d}", cpu=f"{NODE_MILLI_CPU}m", labels={ZONE: f"zone-{i % 3}"})
            for i in range(NODES)
        ),
    )
    create_all(control_plane, pods)
    history = PodHistory(control_plane.client(), NAMESPACE)
    started = time.monotonic()
    scheduler = RunningScheduler(
        program_under_test(),
        control_plane,
        user=SECOND_SCHEDULER,
        config=configuration(clientConnection=_unthrottled(control_plane)),
        folder=tmp_path,
        name="scheduler",
    )
    try:
        wait_for(
            "all pods to be bound",
            lambda: len(history.bound_at) == PODS,
            seconds=300,
            every=0.2,
            explain=scheduler.process.tail,
        )
        time.sleep(2)  # whatever would be bound a second time
        cpu_seconds, peak_mib = scheduler.usage()
        assert scheduler.metric("scheduler_schedule_attempts_total", result="scheduled") == PODS
        scheduler.leave(seconds=30)
    finally:
        scheduler.kill()
        history.close()

    twice = {name: places for name, places in history.placements.items() if len(places) != 1}
    assert not twice
    used: Counter[str] = Counter()
    for tree in pods:
        used[history.placements[tree["metadata"]["name"]][0]] += milli_cpu(tree)
    over = {name: milli for name, milli in used.items() if milli > NODE_MILLI_CPU}
    assert not over

    times = sorted(history.bound_at.values())
    seconds = times[-1] - times[0]
    rate = (PODS - 1) / seconds if seconds else math.inf
    with capsys.disabled():
        print(
            f"\n{scheduler.program}: {PODS} pods on {NODES} nodes: {rate:.0f} pods/s, first bind "
            f"after {times[0] - started:.1f} s, {1000 * cpu_seconds / PODS:.2f} ms CPU a pod, "
            f"{peak_mib:.0f} MiB peak"
        )


def _unthrottled(control_plane: ControlPlane) -> Object:
    kubeconfig = control_plane.kubeconfig(SECOND_SCHEDULER)
    return {"kubeconfig": str(kubeconfig), "qps": 10000, "burst": 10000}
