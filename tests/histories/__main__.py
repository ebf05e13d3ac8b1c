"""Play histories of a store with kills and disk faults, check them, and print what breaks a promise."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from tests.e2e.assets import find_assets
from tests.histories.checking import Broken, check
from tests.histories.drawing import draw_faults, draw_plan
from tests.histories.playing import play
from tests.histories.recording import History
from tests.histories.targets import ControlServer, Launcher, LocalServer, StartError

PROGRESS_SECONDS: Final = 30.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="Number of histories to play.")
    parser.add_argument("--start", type=int, default=1, help="The first seed.")
    parser.add_argument("--control", action="store_true", help="Play on kube-apiserver and etcd instead.")
    parser.add_argument("--first", action="store_true", help="Stop at the first one that breaks a promise.")
    args = parser.parse_args()
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # connections to a server that was killed
    seeds = range(args.start, args.start + args.runs)
    return asyncio.run(play_control(seeds) if args.control else play_local(seeds, first=args.first))


async def play_local(seeds: range, *, first: bool = False) -> int:
    summary = Summary()
    with tempfile.TemporaryDirectory() as name:
        async with Launcher(Path(name)) as launcher:
            if not launcher.has_disk:
                print("no C compiler: faults of the disk are left out")
            for seed in seeds:
                history, broken = await play_one(launcher, Path(name), seed)
                summary.add(seed, history, broken)
                if broken and first:
                    break
    return summary.report()


async def play_one(launcher: Launcher, folder: Path, seed: int) -> tuple[History, list[Broken]]:
    """A run on a server and a file of its own."""
    plan = draw_plan(seed)
    target = LocalServer(launcher, folder / f"run-{seed}", keep_changes=plan.keep_changes)
    try:
        await target.start()
        history = await play(plan, draw_faults(plan, target), target)
    except* StartError as errors:
        history, broken = History(), [Broken("a server starts", repr(errors))]
    else:
        broken = check(history)
    finally:
        await target.stop()
    if not broken:
        target.remove()
    return history, broken


async def play_control(seeds: range) -> int:
    assets = find_assets()
    if isinstance(assets, str):
        print(assets)
        return 2
    summary = Summary()
    with tempfile.TemporaryDirectory() as name:
        target = ControlServer(Path(name), assets)
        await target.start()
        try:
            for seed in seeds:
                plan = draw_plan(seed, slow_start=True)
                history = await play(plan, draw_faults(plan, target, slow_start=True), target)
                # kube-apiserver watches from its cache, which begins with its start.
                history.keeps_all = False
                summary.add(seed, history, check(history))
        finally:
            await target.stop()
    return summary.report()


class Summary:
    """What was played, and what broke."""

    def __init__(self) -> None:
        self._began = self._reported = time.perf_counter()
        self._counts: Counter[str] = Counter()

    def add(self, seed: int, history: History, broken: list[Broken]) -> None:
        self._counts["runs"] += 1
        self._counts["calls"] += len(history.calls)
        self._counts["without an answer"] += sum(call.unknown for call in history.calls)
        self._counts["watches"] += len(history.watches)
        self._counts["events"] += sum(len(watch.events) for watch in history.watches)
        self._counts.update(
            what.split(",")[0].split(" for ")[0].split(" take ")[0] for _, what in history.faults
        )
        if broken:
            self._counts["broken"] += 1
            faults = [f"{at:.4f}  {what}" for at, what in history.faults]
            print(f"seed {seed}:", *faults, *broken[:5], sep="\n  ", flush=True)
        if time.perf_counter() - self._reported > PROGRESS_SECONDS:
            self._reported = time.perf_counter()
            runs, number = self._counts["runs"], self._counts["broken"]
            print(f"{runs:,} histories, {number} broken", file=sys.stderr, flush=True)

    def report(self) -> int:
        """Print the counts; the exit code."""
        took = time.perf_counter() - self._began
        counts = ", ".join(f"{number:,} {what}" for what, number in self._counts.items() if what != "broken")
        print(f"{counts}; {self._counts['broken']} broken; {took:.0f} s")
        return 1 if self._counts["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
