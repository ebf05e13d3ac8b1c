"""Play universes and judge them; print the seeds that break a rule, reduced."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from tests.universe.drawing import draw
from tests.universe.judging import Broken, judge
from tests.universe.parts import Universe
from tests.universe.playing import digest, play
from tests.universe.printing import story_lines, universe_lines
from tests.universe.shrinking import shrink

PROGRESS_SECONDS: Final = 30.0


class Played(NamedTuple):
    """A universe that was played and judged."""

    seed: int
    digest: str
    virtual_seconds: float
    broken: list[Broken]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.universe", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="Number of universes to play.")
    parser.add_argument("--start", type=int, default=1, help="The first seed.")
    parser.add_argument("--replay", type=int, metavar="SEED", help="Play one universe and print its story.")
    parser.add_argument("--whole", action="store_true", help="Do not reduce universes that break a rule.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="Number of processes.")
    parser.add_argument("--first", action="store_true", help="Stop at the first one, and do not reduce it.")
    args = parser.parse_args()
    if args.replay is not None:
        return replay(args.replay)
    seeds = range(args.start, args.start + args.seeds)
    if args.first:
        return play_all(map(play_one, seeds), len(seeds), whole=True, first=True)
    with playing(seeds, jobs=min(args.jobs, len(seeds))) as played:
        return play_all(played, len(seeds), whole=args.whole)


def replay(seed: int) -> int:
    universe = draw(seed)
    story = play(universe)
    broken = judge(story)
    print(*universe_lines(universe), *story_lines(story), *broken, f"story {digest(story)}", sep="\n")
    return 1 if broken else 0


@contextmanager
def playing(seeds: range, *, jobs: int) -> Iterator[Iterable[Played]]:
    """Play the universes in several processes; the results come in the order of the seeds."""
    if jobs <= 1:
        yield map(play_one, seeds)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the processes end with this one
    with multiprocessing.get_context("fork").Pool(
        jobs, signal.signal, (signal.SIGTERM, signal.SIG_DFL)
    ) as pool:
        yield pool.imap(play_one, seeds)


def play_one(seed: int) -> Played:
    story = play(draw(seed))
    return Played(seed, digest(story), story[-1]["at"], judge(story))


def play_all(universes: Iterable[Played], seeds: int, *, whole: bool, first: bool = False) -> int:
    """Print the universes that break a rule, and return the exit code. `first`: stop at the first one."""
    began, failed, played, seconds = time.perf_counter(), 0, 0, 0.0
    reported = began
    for each in universes:
        seconds += each.virtual_seconds
        played += 1
        if each.broken:
            failed += 1
            rules = (f"  {rule}" for rule in each.broken[:5])
            print(f"seed {each.seed}, story {each.digest}:", *rules, sep="\n", flush=True)
            if not whole:
                report_reduced(draw(each.seed), each.broken[0])
            if first:
                break
        if time.perf_counter() - reported > PROGRESS_SECONDS:
            reported = time.perf_counter()
            print(f"{played:,} of {seeds:,} universes, {failed} broken", file=sys.stderr, flush=True)
    took = time.perf_counter() - began
    print(f"{played} universes, {failed} broken; {seconds / 3600:.1f} h of virtual time in {took:.0f} s")
    return 1 if failed else 0


def report_reduced(universe: Universe, first: Broken) -> None:
    def still_breaks(candidate: Universe) -> bool:
        return any(each.rule == first.rule for each in judge(play(candidate)))

    reduced = shrink(universe, still_breaks)
    broken = next(each for each in judge(play(reduced)) if each.rule == first.rule)
    print("  reduced:", *(f"    {line}" for line in universe_lines(reduced)), f"    {broken}", sep="\n")


if __name__ == "__main__":
    sys.exit(main())
