"""Older Kubernetes: the real API server emulates each version that it can, and Kuberth schedules there.

What a version does not serve counts as empty, and the log names it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import SECOND_SCHEDULER_BASE
from tests.e2e.assets import Assets
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import configuration, node, pod
from tests.e2e.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("kuberth_only")]

NOT_SERVED = {
    "1.33": {"DeviceClass", "ResourceClaim", "ResourceSlice"},  # resource.k8s.io/v1 came with 1.34
    "1.34": set[str](),
    "1.35": set[str](),
}


@pytest.fixture(scope="module", params=NOT_SERVED)
def version(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def control_plane(
    version: str, assets: Assets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    flags = [f"--emulated-version={version}"]
    control_plane = ControlPlane(tmp_path_factory.mktemp("emulating"), assets, flags=flags)
    control_plane.start()
    try:
        control_plane.kubectl("apply", "-k", str(SECOND_SCHEDULER_BASE))
        yield control_plane
    finally:
        control_plane.stop()


def test_pods_are_scheduled(cluster: Cluster, start_scheduler: StartScheduler, version: str) -> None:
    cluster.create(node("a"), node("b", unschedulable=True))
    scheduler = start_scheduler(configuration())
    cluster.create(pod("fits", scheduler="kuberth"), pod("large", scheduler="kuberth", cpu="1000"))
    assert cluster.wait_bound("fits") == {"fits": "a"}
    assert "1 Insufficient cpu" in cluster.wait_unschedulable("large")

    def named() -> bool:
        log = scheduler.process.output()
        return all(f"{kind} is not served by the API server" in log for kind in NOT_SERVED[version])

    wait_for("the log to name what is not served", named, explain=scheduler.process.tail)
    assert scheduler.process.output().count("is not served") == len(NOT_SERVED[version])
