"""Fixtures of the end-to-end tests: one clean cluster a test, and schedulers on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.assets import Assets
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import SECOND_SCHEDULER, ControlPlane
from tests.e2e.schedulers import KUBE_SCHEDULER, RunningScheduler, program_under_test

StartScheduler = Callable[..., RunningScheduler]


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[Cluster]:
    cluster = Cluster(control_plane)
    yield cluster
    cluster.clean_up()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The scale test runs only if it is selected by name."""
    if "scale" not in config.getoption("markexpr"):
        skip = pytest.mark.skip(reason="only on request: -m scale")
        for item in items:
            if item.get_closest_marker("scale"):
                item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Show the schedulers' logs with a failure; report skips from one place, so that they fold into one."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        report.longrepr = (str(Path(__file__).parent), None, report.longrepr[2])
    if report.failed:
        for scheduler in item.stash.get(_SCHEDULERS, []):
            report.sections.append((f"log of {scheduler.process.name}", scheduler.process.tail(80)))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how long a reader's way took, which tests record as the property `walked`."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties if report.when == "call" else ():
            if name == "walked":
                terminalreporter.write_line(f"{report.nodeid}: {value}")


_SCHEDULERS = pytest.StashKey[list[RunningScheduler]]()


@pytest.fixture
def start_scheduler(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path
) -> Iterator[StartScheduler]:
    """Starts schedulers with the rights of the shipped ClusterRole, and sees that they were enough.

    start_scheduler(configuration(...), program=..., user=..., name=..., kubeconfig=..., flags=[...])
    """
    started: list[RunningScheduler] = []
    request.node.stash[_SCHEDULERS] = started
    may_be_refused: set[str] = set()

    def start(
        config: dict[str, Any], *, ready: bool = True, may_be_forbidden: bool = False, **options: Any
    ) -> RunningScheduler:
        settings = {
            "program": program_under_test(),
            "user": SECOND_SCHEDULER,
            "name": f"scheduler-{len(started) + 1}",
            **options,
        }
        program = settings.pop("program")
        scheduler = RunningScheduler(
            program, cluster.control_plane, config=config, folder=tmp_path, **settings
        )
        started.append(scheduler)
        if may_be_forbidden:
            may_be_refused.add(scheduler.user)
        if ready:
            scheduler.wait_ready()
        return scheduler

    yield start
    for scheduler in started:
        scheduler.kill()
    audit = cluster.control_plane.audit
    for user in {scheduler.user for scheduler in started} - may_be_refused:
        refused = audit.forbidden(user, cluster.audit_start)
        assert not refused, f"the shipped ClusterRole does not let {user} {', '.join(refused)}"


@pytest.fixture
def kuberth_only() -> None:
    """For tests of what kube-scheduler does not have."""
    if program_under_test() == KUBE_SCHEDULER:
        pytest.skip("kube-scheduler is under test and does not have this")


@pytest.fixture
def peer(assets: Assets) -> str:
    """The Go kube-scheduler, for tests that need both."""
    if assets.kube_scheduler is None:
        pytest.skip("no kube-scheduler: run `make envtest`")
    return KUBE_SCHEDULER
