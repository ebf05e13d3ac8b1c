"""Run `kuberth run` or `kuberth up` under churn and restarts, and report what grows."""

from __future__ import annotations

import argparse
import http.client
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.api_client import RefusedError
from tests.e2e.assets import REPOSITORY, find_assets
from tests.e2e.objects import pod
from tests.soak.clusters import RunCluster, SoakCluster, UpCluster
from tests.soak.measuring import FIGURES, Sample, most_memory_mib, over_limit, slope, write_csv, write_plot

DEPLOYMENT: Final = REPOSITORY / "deploy" / "base" / "deployment.yaml"
SAMPLE_SECONDS: Final = 5.0
OTHERS_SECONDS: Final = 45.0
"""How often another process of the cluster is killed."""
PODS: Final = 400
"""How many pods there are at a time."""
PODS_PER_SECOND: Final = 20.0
_FAILURES: Final = (OSError, http.client.HTTPException, RefusedError, AssertionError)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="How long to run.")
    parser.add_argument("--target", choices=("run", "up"), default="run", help="The program to run.")
    parser.add_argument("--seed", type=int, default=1, help="Draws the pods and their changes.")
    parser.add_argument("--out", type=Path, default=Path(), help="Folder for the CSV file and the plot.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if args.target == "up":
            cluster: SoakCluster = UpCluster(Path(name))
        else:
            assets = find_assets()
            if isinstance(assets, str):
                print(assets)
                return 2
            cluster = RunCluster(Path(name), assets)
        soak = Soak(cluster, seconds=args.minutes * 60, seed=args.seed)
        try:
            soak.play()
        finally:
            cluster.stop()
    args.out.mkdir(parents=True, exist_ok=True)
    stem = args.out / f"soak-{args.target}"
    write_csv(stem.with_suffix(".csv"), soak.samples)
    write_plot(stem.with_suffix(".svg"), soak.samples, title=f"kuberth {args.target}")
    print(*soak.report(), f"{stem}.csv, {stem}.svg", sep="\n")
    # Of `run` alone: no Deployment runs `up`, which holds a whole cluster.
    too_much = over_limit(soak.samples, most_memory_mib(DEPLOYMENT)) if args.target == "run" else ""
    if too_much:
        print(too_much)
    return 1 if soak.ended_alone or too_much else 0


class Soak:
    """One long run: churn in a thread, restarts and samples in another."""

    def __init__(self, cluster: SoakCluster, *, seconds: float, seed: int) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._rng = random.Random(seed)
        self._over = threading.Event()
        self._counts: Counter[str] = Counter()
        self.samples: list[Sample] = []
        self.ended_alone = 0
        """How often the process ended without being asked to."""
        self._process = 0
        self._born = 0.0

    def play(self) -> None:
        began = time.monotonic()
        self._start()
        churning = threading.Thread(target=self._churn, name="churn")
        churning.start()
        try:
            restarts = self._restarts(began)
            next_sample = began
            while (now := time.monotonic()) < began + self._seconds:
                if not self._cluster.process.alive:
                    self.ended_alone += 1
                    print(f"ended by itself: {self._cluster.process.tail()}")
                    self._start()
                if restarts and restarts[0][0] <= now:
                    restarts.pop(0)[1]()
                if next_sample <= now:
                    self._sample(now - began)
                    next_sample += SAMPLE_SECONDS
                self._over.wait(0.2)
        finally:
            self._over.set()
            churning.join(60)

    def report(self) -> list[str]:
        lines = [", ".join(f"{number:,} {what}" for what, number in sorted(self._counts.items()))]
        for figure in FIGURES:
            values = [float(getattr(each, figure)) for each in self.samples]
            if values:
                span = f"first {values[0]:8.1f}  last {values[-1]:8.1f}  most {max(values):8.1f}"
                lines.append(f"{figure:12} {span}  {slope(self.samples, figure)}")
        return lines

    # Restarts

    def _restarts(self, began: float) -> list[tuple[float, Callable[[], None]]]:
        """The measured process ends twice, early; the others are killed all the time."""
        found: list[tuple[float, Callable[[], None]]] = [
            (began + self._seconds * 0.1, lambda: self._restart(signal.SIGKILL)),
            (began + self._seconds * 0.2, lambda: self._restart(signal.SIGTERM)),
        ]
        at, number = began + OTHERS_SECONDS, 0
        while self._cluster.others and at < began + self._seconds - OTHERS_SECONDS / 2:
            name = self._cluster.others[number % len(self._cluster.others)]
            found.append((at, lambda name=name: self._kill_other(name)))  # type: ignore[misc]
            at, number = at + OTHERS_SECONDS, number + 1
        return sorted(found, key=lambda each: each[0])

    def _start(self) -> None:
        self._cluster.start()
        self._process += 1
        self._born = time.monotonic()

    def _restart(self, number: signal.Signals) -> None:
        self._counts[f"{number.name} of the process"] += 1
        if number is signal.SIGKILL:
            self._cluster.process.kill()
        else:
            self._cluster.process.terminate(seconds=30)
        self._start()

    def _kill_other(self, name: str) -> None:
        self._counts[f"kills of {name}"] += 1
        self._cluster.kill_other(name)

    # Measurements

    def _sample(self, seconds: float) -> None:
        try:
            pid = self._cluster.process.pid
            pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
            files = len(os.listdir(f"/proc/{pid}/fd"))
            figures = _figures(self._cluster.metrics())
        except _FAILURES:
            self._counts["samples missed"] += 1
            return
        self.samples.append(
            Sample(
                seconds=seconds,
                process=self._process,
                age=time.monotonic() - self._born,
                memory_mib=pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20),
                files=files,
                tasks=figures["kuberth_asyncio_tasks"],
                plans=figures["kuberth_plans"],
                pending=figures["scheduler_pending_pods"],
                cached=figures["scheduler_cache_size pods"],
                bound=figures["scheduler_schedule_attempts_total scheduled"],
            )
        )

    # Churn

    def _churn(self) -> None:
        """Pods come and go, nodes are cordoned and relabelled; what fails is left for the next turn."""
        present: list[str] = []
        number, began = 0, time.monotonic()
        while not self._over.is_set():
            try:
                self._counts["changes"] += 1
                if len(present) >= PODS:
                    name = present[self._rng.randrange(len(present))]
                    self._cluster.client.delete("v1", "Pod", name, namespace="default", grace_seconds=0)
                    present.remove(name)
                elif self._rng.random() < 0.02:
                    self._change_node()
                else:
                    name = f"pod-{number}"
                    self._cluster.client.create(self._pod(name))
                    present.append(name)
                    number += 1
            except RefusedError as error:
                # A creation whose answer was lost may have worked.
                number += error.status == 409
                self._counts["changes refused"] += 1
            except _FAILURES:
                self._counts["changes failed"] += 1
                self._over.wait(0.5)
            ahead = began + self._counts["changes"] / (2 * PODS_PER_SECOND) - time.monotonic()
            if ahead > 0:
                self._over.wait(ahead)

    def _change_node(self) -> None:
        names = sorted(each["metadata"]["name"] for each in self._cluster.client.list("v1", "Node"))
        change: dict[str, Any] = {"spec": {"unschedulable": self._rng.random() < 0.2}}
        if self._rng.random() < 0.5:
            change = {"metadata": {"labels": {"disk": self._rng.choice(("ssd", "hdd"))}}}
        self._cluster.client.patch("v1", "Node", self._rng.choice(names), change)

    def _pod(self, name: str) -> dict[str, Any]:
        rng = self._rng
        spec: dict[str, Any] = {"labels": {"app": f"app-{rng.randrange(20)}"}}
        draw = rng.random()
        if draw < 0.15:
            spec["nodeSelector"] = {"disk": rng.choice(("ssd", "hdd", "tape"))}
        elif draw < 0.25:
            term = {"labelSelector": {"matchLabels": spec["labels"]}, "topologyKey": "kubernetes.io/hostname"}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        # Some fit nowhere; every value is one of many, so that pods are of many kinds.
        cpu = "900" if draw > 0.95 else f"{rng.randrange(1, 60) * 10}m"
        built: dict[str, Any] = pod(name, scheduler=self._cluster.scheduler_name, cpu=cpu, **spec)
        built["metadata"]["namespace"] = "default"
        return built


def _figures(text: str) -> Counter[str]:
    """Sums by family, and by family and first label."""
    sums: Counter[str] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            sums[sample.name] += int(sample.value)
            for value in sample.labels.values():
                sums[f"{sample.name} {value}"] += int(sample.value)
    return sums


if __name__ == "__main__":
    sys.exit(main())
