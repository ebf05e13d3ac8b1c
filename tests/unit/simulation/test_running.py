"""Whole runs in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest
from msgspec.structs import replace as replaced

from kuberth.api.core import Binding, Pod
from kuberth.api.wire import convert
from kuberth.client.protocol import WatchEvent, WatchType
from kuberth.clock import LoopClock
from kuberth.errors import ConflictError
from kuberth.simulation.kubelets import Kubelets
from kuberth.simulation.outcomes import Outcome, PodCounts
from kuberth.simulation.running import SimulationApi, reasons_in, simulate
from kuberth.testing import make_pod, run_in_virtual_time
from tests.unit.simulation.harness import crowd, managed, pod, scene, template


def test_pods_run_for_their_duration_and_free_their_resources() -> None:
    outcome = simulate(scene(pod(0, 100, cpu="3"), pod(10, 50, cpu="3")))
    assert outcome.pods == PodCounts(arrived=2, placed=2, finished=2, preempted=0, waiting=0)
    # The second one had to wait for the first one's end, and was then tried at once or after its backoff.
    assert 90 <= outcome.waits.longest < 92
    assert outcome.waits.p50 == 0
    assert outcome.seconds == pytest.approx(150, abs=2)
    assert outcome.utilisation["cpu"] == pytest.approx(0.75, abs=0.01)
    assert [each.text for each in outcome.reasons] == ["Insufficient cpu"]
    assert outcome.attempts.scheduled == 2
    assert outcome.attempts_wasted == pytest.approx(1 - 2 / (2 + outcome.attempts.unschedulable), abs=1e-6)


def test_a_pod_that_never_fits_ends_the_run_and_is_counted_as_waiting() -> None:
    outcome = simulate(scene(pod(0, 10), pod(5, 10, cpu="5", priority=3, tenant="blue")))
    assert outcome.pods.waiting == 1
    assert outcome.waits.still_waiting == 1
    assert outcome.waits_by_priority["3"].still_waiting == 1
    assert outcome.waits_by_tenant["blue"].pods == 0


def test_pods_without_a_node_count_with_their_wait_so_far() -> None:
    outcome = simulate(scene(pod(0, 1000, cpu="3"), pod(10, cpu="3"), pod(30, cpu="3"), until=100.0))
    assert (outcome.waits.pods, outcome.waits.still_waiting) == (1, 2)
    assert outcome.waits.longest == pytest.approx(90)
    assert outcome.waits.mean == pytest.approx((0 + 90 + 70) / 3)
    assert outcome.waits.p50 == pytest.approx(70)


def test_utilisation_is_of_the_time_in_which_pods_arrive() -> None:
    outcome = simulate(scene(pod(0, 100, cpu="4"), pod(200, 1000, cpu="1")))
    assert outcome.arrival_seconds == 200
    assert outcome.utilisation["cpu"] == pytest.approx(0.5)
    assert outcome.drain_utilisation["cpu"] == pytest.approx(0.25)


def test_a_short_time_after_the_last_arrival_is_no_drain() -> None:
    outcome = simulate(scene(pod(0, 1e6, cpu="1"), pod(999, 1e6, cpu="3"), until=1000.0))
    assert outcome.arrival_seconds == 1000
    assert outcome.utilisation["cpu"] == pytest.approx(0.25 + 0.75 / 1000, abs=1e-6)
    assert outcome.drain_utilisation == {}


@pytest.mark.parametrize("until", [None, 40.0])
def test_without_later_arrivals_the_whole_run_counts(until: float | None) -> None:
    outcome = simulate(scene(pod(0, 100, cpu="4"), until=until))
    assert outcome.arrival_seconds == (until or 100)
    assert outcome.utilisation["cpu"] == pytest.approx(1)
    assert outcome.drain_utilisation == {}


def test_an_interrupt_ends_the_run_with_the_figures_so_far() -> None:
    def report(arrived: int, _seconds: float) -> None:
        if arrived == 2 and not interrupts:
            interrupts.append(arrived)
            signal.raise_signal(signal.SIGINT)

    interrupts: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    outcome = simulate(scene(*(pod(100.0 * n, 50) for n in range(50))), report=report, interruptible=True)
    assert outcome.interrupted
    assert 2 <= outcome.pods.arrived < 50
    assert outcome.utilisation["cpu"] > 0
    assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture
def interrupts_as_usual() -> Iterator[None]:
    """A shell starts programs in the background with interrupts ignored, and Python leaves it so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts_as_usual")
def test_a_second_interrupt_is_an_interrupt() -> None:
    def report(arrived: int, _seconds: float) -> None:
        if arrived == 2:
            signal.raise_signal(signal.SIGINT)

    def both(arrived: int, seconds: float) -> None:
        report(arrived, seconds)
        report(arrived, seconds)

    with pytest.raises(KeyboardInterrupt):
        simulate(scene(pod(0, 5), pod(1, 5), pod(2, 5)), report=both, interruptible=True)


def test_progress_has_pods_and_virtual_time() -> None:
    seen: list[tuple[int, float]] = []
    simulate(scene(pod(0, 5), pod(500, 5)), report=lambda *each: seen.append(each))
    assert (1, 0.0) in seen
    assert (2, 500.0) in seen
    assert any(arrived == 1 and 0 < seconds < 500 for arrived, seconds in seen), "between arrivals too"


@pytest.mark.parametrize(
    ("phase", "finalizers", "uid", "changes"),
    [
        ("Succeeded", (), "u", ["DELETED"]),
        ("Running", (), "u", ["MODIFIED", "DELETED"]),
        ("Succeeded", ("example.com/holds",), "u", ["MODIFIED"]),
        ("Succeeded", (), "v", []),
    ],
)
def test_only_a_pod_that_is_over_goes_without_being_marked(
    phase: str, finalizers: tuple[str, ...], uid: str, changes: list[str]
) -> None:
    async def main() -> list[str]:
        api, seen = SimulationApi(steady=True), list[str]()
        made = make_pod("p", uid="u", node="n", status={"phase": phase})
        api.put(replaced(made, metadata=replaced(made.metadata, finalizers=finalizers)))

        async def follow() -> None:
            async for event in api.watch(Pod, resource_version="2"):
                seen.append(event.type)

        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(follow())
            await asyncio.sleep(0)
            with contextlib.suppress(ConflictError):
                await api.delete(Pod, "p", namespace="default", uid=uid, grace_period_seconds=0)
            await asyncio.sleep(1)
            following.cancel()
        return seen

    assert run_in_virtual_time(main) == changes


def test_a_binding_starts_the_pod_and_its_kubelet_need_not_say_so_again() -> None:
    async def main() -> tuple[Pod, Pod, bool]:
        clock = LoopClock(asyncio.get_running_loop())
        api = SimulationApi(clock=clock, steady=True)
        kubelets = Kubelets(api, clock=clock)
        await asyncio.sleep(61.5)
        api.put(make_pod("p", uid="u", status={"phase": "Pending"}))
        api.assign(
            convert(Binding, {"metadata": {"name": "p", "namespace": "default"}, "target": {"name": "n"}})
        )
        bound = api.read(Pod, "default/p")
        kubelets.handle_pod(WatchEvent(WatchType.MODIFIED, bound, bound.metadata.resource_version))
        idle = kubelets.idle
        await kubelets._report(bound, phase="Running")
        return bound, api.read(Pod, "default/p"), idle

    bound, reported, idle = run_in_virtual_time(main)
    assert idle
    assert bound.status.phase == "Running"
    assert reported is bound, "its kubelet would say the same"


def test_pods_that_stay_for_ever_do_not_keep_the_run_going() -> None:
    outcome = simulate(scene(pod(0), pod(1), pod(2, 5)))
    assert outcome.pods == PodCounts(arrived=3, placed=3, finished=1, preempted=0, waiting=0)


def test_a_preempted_pod_is_created_again() -> None:
    outcome = simulate(scene(pod(0, 1000, cpu="3"), pod(100, 50, cpu="3", priority=10)))
    assert outcome.pods == PodCounts(arrived=3, placed=3, finished=2, preempted=1, waiting=0)
    assert outcome.waits_by_priority["10"].longest < 2
    assert outcome.waits_by_priority["0"].longest > 45
    # It starts again.
    assert outcome.seconds > 1100


def test_a_gang_waits_until_all_of_it_fits() -> None:
    gang = [pod(10, 100, cpu="2", gang="g", name=f"g-{number}") for number in range(3)]
    outcome = simulate(scene(pod(0, 60, cpu="3"), *gang, nodes=2))
    assert outcome.pods.placed == 4
    assert outcome.waits.p50 >= 50, "no member starts before the last one fits"


def test_a_run_ends_at_the_given_time() -> None:
    outcome = simulate(scene(pod(0, 1e6), pod(50, 10), pod(500, 10), until=100.0))
    assert outcome.pods.arrived == 2
    assert outcome.pods.finished == 1
    assert outcome.samples[-1].at == 100


def both_kinds_of_run() -> bytes:
    """More than fits at once, of several priorities, without controllers and with them."""
    web = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec: {{replicas: 9, selector: {{matchLabels: {{app: web}}}}, template: {template(name="web")}}}
"""
    with_controllers = scene(pod(5, 20, priority=10), nodes=2, managed=managed(web), until=60.0)
    crowded = replace(crowd(pods=120, nodes=3), until=2400.0)
    return msgspec.json.encode([simulate(crowded, seed=7), simulate(with_controllers, seed=7)])


def test_one_seed_gives_one_outcome_to_the_last_byte_whatever_the_hash_seed() -> None:
    code = (
        "import sys; from tests.unit.simulation.test_running import both_kinds_of_run; "
        "sys.stdout.buffer.write(both_kinds_of_run())"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "3" if os.environ.get("PYTHONHASHSEED") == "2" else "2"},
        check=True,
        capture_output=True,
        timeout=240,
    ).stdout
    crowded, controlled = msgspec.json.decode(elsewhere, type=list[Outcome])
    assert crowded.attempts.unschedulable > 0
    assert crowded.pods.preempted > 0
    assert controlled.pods.preempted == 1
    assert both_kinds_of_run() == elsewhere


def test_another_seed_breaks_ties_otherwise_and_nothing_else_differs() -> None:
    scenario = replace(crowd(pods=60, nodes=20), until=7200.0)
    first, second = simulate(scenario, seed=1), simulate(scenario, seed=2)
    assert first.pods.arrived == second.pods.arrived
    assert (first.seed, second.seed) == (1, 2)


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ("0/3 nodes are available: 3 Insufficient cpu.", ["Insufficient cpu"]),
        (
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). "
            "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.",
            ["Insufficient cpu", "node(s) had untolerated taint(s)"],
        ),
        ("no nodes available to schedule pods", ["no nodes available to schedule pods"]),
    ],
)
def test_reasons_are_listed_without_numbers(note: str, expected: list[str]) -> None:
    assert reasons_in(note) == expected


def _placements(seed: int) -> tuple[str, ...]:
    """Where pods ran, among them urgent ones that may push aside the same pods on any of eight nodes."""
    low = [pod(0, 5000, cpu="4") for _ in range(8)]
    high = [pod(100 + number, 500, cpu="3", priority=100) for number in range(6)]
    outcome = simulate(scene(*low, *high, nodes=8, records=True), seed=seed)
    assert outcome.pods.preempted == 6
    assert not isinstance(outcome.records, msgspec.UnsetType)
    return tuple(each.node for each in outcome.records.pods)


def test_the_same_seed_preempts_the_same_pods() -> None:
    assert _placements(3) == _placements(3) == _placements(3)
    assert len({_placements(seed) for seed in range(4)}) > 1, "the seed decides which"
