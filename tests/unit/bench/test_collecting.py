"""The rate of a stretch that is too short to be sampled, on virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kuberth.bench.cases import Workload, read_cases
from kuberth.bench.collecting import Collector, PodLedger, ProcessUsage
from kuberth.bench.measurements import Measurement
from kuberth.testing import run_in_virtual_time

CASES = """
- name: Tiny
  workloadTemplate: [{opcode: createPods, count: 1, collectMetrics: true}]
  workloads: [{name: one}]
"""


class NoMeter:
    def usage(self) -> ProcessUsage:
        return ProcessUsage(None, None)

    async def metrics(self) -> str:
        return ""


async def collected(workload: Workload, bound_at: list[float]) -> Measurement:
    """A stretch in which a pod is bound at each of these seconds."""
    ledger = PodLedger()
    collector = Collector(
        "measured",
        workload=workload,
        ledger=ledger,
        meter=NoMeter(),
        namespaces=["default"],
        labels={},
        interval_seconds=1.0,
        with_latencies=False,
    )
    async with asyncio.TaskGroup() as tasks:
        await collector.start(tasks)
        began = asyncio.get_running_loop().time()
        for index, second in enumerate(bound_at):
            await asyncio.sleep(began + second - asyncio.get_running_loop().time())
            metadata = {"name": f"pod-{index}", "namespace": "default"}
            ledger.handle(None, {"metadata": metadata, "spec": {"nodeName": "node"}})
        return await collector.stop()


@pytest.mark.parametrize(
    ("bound_at", "rate"),
    [
        pytest.param([0.25, 0.5, 0.75], 4.0, id="from the first to the last"),
        pytest.param([0.5, 0.5, 0.5], 6.0, id="all in one turn of the event loop"),
        pytest.param([0.25], 4.0, id="one pod"),
        pytest.param([], 0.0, id="none"),
    ],
)
def test_the_rate_of_a_short_stretch(tmp_path: Path, bound_at: list[float], rate: float) -> None:
    (tmp_path / "cases.yaml").write_text(CASES, encoding="utf-8")
    workload = read_cases(tmp_path / "cases.yaml")[0].workloads[0]
    found = run_in_virtual_time(lambda: collected(workload, bound_at))
    assert not found.sampled
    assert found.scheduled == len(bound_at)
    assert found.average == pytest.approx(rate)
