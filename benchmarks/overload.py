"""`python -m benchmarks.overload`: what hopeless attempts cost on a full cluster.

In: a scheduler over an API in memory, and waiting pods that fit on no node. Out: for each kind and number of
templates the microseconds that a pod takes from an event that may help all of them until all of them wait
again, and the microseconds of CPU: medians of some events.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kuberth.api.core import Node, Pod
from kuberth.assembly.scheduler import Scheduler
from kuberth.cli import COLLECTED_AFTER
from kuberth.testing import MemoryApi, make_node, make_pod

ZONE: Final = "topology.kubernetes.io/zone"
SELECTOR: Final = {"matchLabels": {"app": "waiting"}}
KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "plain": {},
    "spread": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": SELECTOR,
            }
        ]
    },
    "anti-affinity": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": ZONE, "labelSelector": SELECTOR}
                ]
            }
        }
    },
}
"""What waiting pods have besides their requests."""


def main() -> None:
    options = _parser().parse_args()
    gc.set_threshold(*COLLECTED_AFTER)
    print(f"{options.nodes} nodes, {options.pods} waiting pods; microseconds a pod and event")
    for kind in options.kinds:
        for templates in options.templates:
            took, cpu = asyncio.run(_measure(kind, templates, options))
            print(f"{kind:<14} {templates:>6} templates {took:>8.1f} µs {cpu:>8.1f} µs of CPU", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overload", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000, metavar="N")
    parser.add_argument("--pods", type=int, default=50000, metavar="N", help="pods that wait")
    parser.add_argument("--templates", type=int, nargs="+", default=[1, 10], metavar="N")
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], default=["plain"])
    parser.add_argument("--events", type=int, default=3, metavar="N", help="events measured")
    return parser


async def _measure(kind: str, templates: int, options: argparse.Namespace) -> tuple[float, float]:
    api = MemoryApi()
    for index in range(options.nodes):
        await api.create(_node(index))
        await api.create(
            make_pod(f"full-{index}", cpu="29500m", memory="64Gi", node=f"node-{index}", priority=1000)
        )
    for index in range(options.events + 1):
        await api.create(make_pod(f"small-{index}", cpu="100m", node=f"node-{index}", priority=1000))
    for index in range(options.pods):
        await api.create(_waiting_pod(index, kind, index % templates))
    scheduler = Scheduler(api)
    running = asyncio.create_task(scheduler.run())
    await _attempts(scheduler, options.pods)
    times, cpus = [], []
    for event in range(options.events + 1):
        gc.collect()
        tried = _tried(scheduler)
        began, cpu_began = time.perf_counter(), time.process_time()
        await api.delete(Pod, f"small-{event}", namespace="default", grace_period_seconds=0)
        await _attempts(scheduler, tried + options.pods)
        if event:
            times.append(time.perf_counter() - began)
            cpus.append(time.process_time() - cpu_began)
    scheduler.stop()
    await running
    return _each(times, options.pods), _each(cpus, options.pods)


def _each(seconds: Sequence[float], pods: int) -> float:
    return statistics.median(seconds) / pods * 1e6


def _node(index: int) -> Node:
    return make_node(
        f"node-{index}", cpu="32", memory="256Gi", pods="110", labels={ZONE: f"zone-{index % 3}"}
    )


def _waiting_pod(index: int, kind: str, template: int) -> Pod:
    return make_pod(
        f"waiting-{index}",
        cpu=f"{4000 + template}m",
        memory="1Gi",
        priority=1000,
        labels={"app": "waiting"},
        **KINDS[kind],
    )


def _tried(scheduler: Scheduler) -> int:
    return int(sum(scheduler.metrics.schedule_attempts.values.values()))


async def _attempts(scheduler: Scheduler, number: int) -> None:
    while _tried(scheduler) < number:  # noqa: ASYNC110 - nothing else says that an attempt has ended
        await asyncio.sleep(0.001)


if __name__ == "__main__":
    main()
