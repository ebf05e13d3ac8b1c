"""What tests of more than one folder need: a real control plane, one a worker, for those marked e2e.

Hypothesis judges answers, never how long a busy machine took for them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.e2e.assets import REPOSITORY, Assets, find_assets
from tests.e2e.control_plane import ControlPlane
from tests.e2e.schedulers import KUBE_SCHEDULER, program_under_test

settings.register_profile("kuberth", deadline=None)
settings.load_profile("kuberth")

SECOND_SCHEDULER_BASE = REPOSITORY / "deploy" / "second-scheduler"


@pytest.fixture(scope="session")
def assets() -> Assets:
    found = find_assets()
    if isinstance(found, str):
        pytest.skip(found)
    if program_under_test() == KUBE_SCHEDULER and found.kube_scheduler is None:
        pytest.skip("no kube-scheduler: run `make envtest`")
    return found


@pytest.fixture(scope="session")
def control_plane(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, with what deploy/second-scheduler gives a scheduler the right to do."""
    control_plane = ControlPlane(tmp_path_factory.mktemp("control-plane"), assets)
    control_plane.start()
    try:
        control_plane.kubectl("apply", "-k", str(SECOND_SCHEDULER_BASE))
        yield control_plane
    finally:
        control_plane.stop()


def pytest_collection_finish() -> None:
    """Ten thousand tests stay until the end: the collector need not scan them again and again."""
    gc.collect()
    gc.freeze()
