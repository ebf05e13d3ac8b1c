"""`python -m benchmarks.full_cluster`: a full cluster on a real API server; which pods wait for which?

In: etcd and kube-apiserver, nodes without room, and pods of high priority that fit nowhere. Small pods end
all the time, and as far as hints know each end may help every waiting pod. Meanwhile pods of low
priority arrive that fit at once. Out: for each scheduler and kind of waiting pods, how many of those were
bound and how late, the scheduler's CPU and memory, and how many requests it sent.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kuberth.bench.arenas import ASSETS, Arena, arena, expect_https, find_program
from kuberth.bench.processes import running
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.framework import FilterPlugin
from kuberth.local.apiserver.objects import Obj

ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
HIGH: Final = 1000
WORKERS: Final = 24
KINDS: Final = ("plain", "preempting", "spread", "affinity", "anti-affinity", "different", "unstated")
_WRITES: Final = {
    "status": ('resource="pods"', 'subresource="status"', 'verb="PATCH"'),
    "events": ('resource="events"', 'verb="P'),
}
"""What the API server's own metric calls these requests."""


class Unstated(FilterPlugin):
    """Passes every node, and does not say what its answers depend on."""

    name = "Unstated"

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        return None


async def main() -> None:
    options = _parser().parse_args()
    print(f"{options.nodes} nodes, {options.waiting} waiting pods, {options.seconds:g} s")
    print(f"{'scheduler':<15} {'waiting pods':<14} {'bound':>9} {'p50':>6} {'p90':>6} {'p99 s':>6}", end="")
    print(f" {'CPU s':>6} {'MiB':>5} {'status':>7} {'events':>7}")
    for kind in options.kinds:
        for scheduler in options.schedulers:
            if kind == "unstated" and scheduler != "kuberth":
                continue
            with tempfile.TemporaryDirectory() as folder:
                async with arena(ASSETS, gates={}, folder=Path(folder), assets=options.assets) as place:
                    await _Run(place, scheduler, kind, options).play()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.full_cluster", description=__doc__)
    parser.add_argument("--assets", type=Path, metavar="DIR", help="folder with etcd and kube-apiserver")
    parser.add_argument("--nodes", type=int, default=1000, metavar="N")
    parser.add_argument("--waiting", type=int, default=20000, metavar="N", help="pods that fit nowhere")
    parser.add_argument("--seconds", type=float, default=30, metavar="N", help="how long pods arrive")
    parser.add_argument("--settle", type=float, default=20, metavar="N", help="seconds before they do")
    parser.add_argument("--arrivals", type=float, default=10, metavar="N", help="modest pods per second")
    parser.add_argument("--ends", type=float, default=5, metavar="N", help="placed pods that end per second")
    parser.add_argument("--queue", metavar="MODULE:FACTORY", help="kuberth's queue, as of `kuberth run`")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["plain"])
    parser.add_argument(
        "--schedulers",
        nargs="+",
        choices=("kuberth", "kube-scheduler"),
        default=["kuberth", "kube-scheduler"],
    )
    return parser


class _Run:
    def __init__(self, place: Arena, scheduler: str, kind: str, options: argparse.Namespace) -> None:
        self._place = place
        self._scheduler = scheduler
        self._kind = kind
        self._options = options
        self._created: dict[str, float] = {}
        self._bound: dict[str, float] = {}

    async def play(self) -> None:
        options = self._options
        await self._create("nodes", (_node(index) for index in range(options.nodes)))
        await self._create("pods", self._full_pods())
        ends = int(options.ends * (options.seconds + options.settle))
        small = (
            _pod(f"end-{i}", "100m", node=f"node-{i % options.nodes}", priority=HIGH) for i in range(ends)
        )
        await self._create("pods", small)
        await self._create("pods", (self._waiting_pod(index) for index in range(options.waiting)))
        before = await self._writes()
        watch = asyncio.create_task(self._note_bound())
        async with running(self._scheduler, self._command(), folder=self._place.folder) as program:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._repeat(ends, options.ends, 0, self._end))
                arrivals = int(options.arrivals * options.seconds)
                tasks.create_task(self._repeat(arrivals, options.arrivals, options.settle, self._arrive))
            await asyncio.sleep(10)
            program.check_alive()
            usage = program.usage()
        watch.cancel()
        after = await self._writes()
        self._print(
            usage.cpu_seconds or 0, usage.peak_mib or 0, {key: after[key] - before[key] for key in after}
        )

    def _print(self, cpu: float, mib: float, writes: Mapping[str, int]) -> None:
        waits = sorted(
            self._bound[name] - since if name in self._bound else float("inf")
            for name, since in self._created.items()
        )
        late = [waits[min(len(waits) * share // 100, len(waits) - 1)] for share in (50, 90, 99)]
        print(
            f"{self._scheduler:<15} {self._kind:<14} {len(self._bound):>4}/{len(waits):<4}"
            + "".join(f" {each:>6.2f}" for each in late)
            + f" {cpu:>6.1f} {mib:>5.0f} {writes['status']:>7} {writes['events']:>7}",
            flush=True,
        )

    # Objects

    def _full_pods(self) -> Iterator[Obj]:
        for index in range(self._options.nodes):
            evictable = self._kind == "preempting" and index % 10 == 0
            yield _pod(
                f"full-{index}", "29500m", "64Gi", node=f"node-{index}", priority=0 if evictable else HIGH
            )

    def _waiting_pod(self, index: int) -> Obj:
        template = f"t{index % 10}"
        milli = 4000 + index if self._kind == "different" else 1000 * (4 + index % 10)
        pod = _pod(f"wait-{index}", f"{milli}m", "1Gi", priority=HIGH, app=template)
        same = {"matchLabels": {"app": template}}
        if self._kind == "spread":
            pod["spec"]["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": ZONE,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": same,
                }
            ]
        elif self._kind in ("affinity", "anti-affinity"):
            # Pods of the first kind may be the first of theirs anywhere, and fit nowhere by their requests.
            name = "podAffinity" if self._kind == "affinity" else "podAntiAffinity"
            terms = [{"topologyKey": HOSTNAME, "labelSelector": same}]
            pod["spec"]["affinity"] = {name: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        return pod

    async def _create(self, resource: str, objects: Iterable[Obj]) -> None:
        rest = iter(objects)
        namespace = "default" if resource == "pods" else ""

        async def create_some() -> None:
            for each in rest:
                await self._place.server.create(resource, each, namespace=namespace)

        async with asyncio.TaskGroup() as workers:
            for _ in range(WORKERS):
                workers.create_task(create_some())

    # What happens meanwhile

    async def _repeat(
        self, number: int, per_second: float, after: float, act: Callable[[int], Awaitable[None]]
    ) -> None:
        began = time.monotonic() + after
        for index in range(number):
            await asyncio.sleep(max(began + index / per_second - time.monotonic(), 0))
            await act(index)

    async def _end(self, index: int) -> None:
        await self._place.server.delete(
            "pods", f"end-{index}", namespace="default", options={"gracePeriodSeconds": 0}
        )

    async def _arrive(self, index: int) -> None:
        name = f"modest-{index}"
        self._created[name] = time.monotonic()
        await self._place.server.create("pods", _pod(name, "1m", priority=0), namespace="default")

    async def _note_bound(self) -> None:
        version = (await self._place.server.list("pods"))["metadata"]["resourceVersion"]
        while True:
            async for _type, pod in self._place.server.watch("pods", resource_version=version):
                version = pod["metadata"]["resourceVersion"]
                name = pod["metadata"].get("name", "")
                if name.startswith("modest-") and pod["spec"].get("nodeName"):
                    self._bound.setdefault(name, time.monotonic())

    # The scheduler, and what it sends

    def _command(self) -> list[str]:
        kubeconfig = expect_https(self._place, self._scheduler)
        config = self._place.folder / "config.yaml"
        tail = ""
        if self._scheduler == "kuberth":
            command = [sys.executable, "-m", "kuberth", "run"]
            if self._kind == "unstated":
                command.append("--plugin=benchmarks.full_cluster:Unstated")
                tail = "profiles:\n- plugins: {multiPoint: {enabled: [{name: Unstated}]}}\n"
            if self._options.queue:
                command.append(f"--queue={self._options.queue}")
        else:
            command = [str(find_program("kube-scheduler", self._options.assets))]
        config.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            "leaderElection: {leaderElect: false}\n"
            f"clientConnection: {{kubeconfig: {kubeconfig}, qps: 5000, burst: 5000}}\n{tail}",
            encoding="utf-8",
        )
        return [*command, f"--config={config}", "--secure-port=0"]

    async def _writes(self) -> dict[str, int]:
        """How many pod status patches and event writes the API server has seen."""
        api = HttpApi(load_client_config(kubeconfig=str(self._place.kubeconfig)), qps=-1)
        try:
            text = (await api.call("GET", "/metrics")).decode()
        finally:
            await api.close()
        requests = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
        return {
            name: sum(
                int(float(line.rsplit(" ", 1)[1]))
                for line in requests
                if all(label in line for label in labels)
            )
            for name, labels in _WRITES.items()
        }


def _node(index: int) -> Obj:
    size = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    labels = {HOSTNAME: f"node-{index}", ZONE: f"zone-{index % 3}"}
    status = {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": f"node-{index}", "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def _pod(
    name: str, cpu: str, memory: str = "1Mi", *, priority: int, node: str = "", app: str = "other"
) -> Obj:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    spec: Obj = {
        "containers": [{"name": "c", "image": "pause", "resources": resources}],
        "priority": priority,
    }
    if node:
        spec["nodeName"] = node
    metadata = {"name": name, "namespace": "default", "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


if __name__ == "__main__":
    asyncio.run(main())
