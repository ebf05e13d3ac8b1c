"""Play universes and judge them; print the seeds that break a rule, reduced."""

from __future__ import annotations

import argparse
import sys
import time

from tests.universe.drawing import draw
from tests.universe.judging import Broken, judge
from tests.universe.parts import Universe
from tests.universe.playing import digest, play
from tests.universe.printing import story_lines, universe_lines
from tests.universe.shrinking import shrink


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.universe", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="Number of universes to play.")
    parser.add_argument("--start", type=int, default=1, help="The first seed.")
    parser.add_argument("--replay", type=int, metavar="SEED", help="Play one universe and print its story.")
    parser.add_argument("--whole", action="store_true", help="Do not reduce universes that break a rule.")
    parser.add_argument("--first", action="store_true", help="Stop at the first one, and do not reduce it.")
    args = parser.parse_args()
    if args.replay is not None:
        return replay(args.replay)
    return play_all(args.start, args.seeds, whole=args.whole or args.first, first=args.first)


def replay(seed: int) -> int:
    universe = draw(seed)
    story = play(universe)
    broken = judge(story)
    print(*universe_lines(universe), *story_lines(story), *broken, f"story {digest(story)}", sep="\n")
    return 1 if broken else 0


def play_all(start: int, seeds: int, *, whole: bool, first: bool) -> int:
    began, failed, played, seconds = time.perf_counter(), 0, 0, 0.0
    for seed in range(start, start + seeds):
        universe = draw(seed)
        story = play(universe)
        seconds += story[-1]["at"]
        played += 1
        if broken := judge(story):
            failed += 1
            print(f"seed {seed}, story {digest(story)}:", *(f"  {each}" for each in broken[:5]), sep="\n")
            if not whole:
                report_reduced(universe, broken[0])
            if first:
                break
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
