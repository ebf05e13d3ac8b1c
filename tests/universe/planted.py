"""Plants faults in a copy of the source and plays universes until one breaks a rule.

Faults of the local API server's store are sought with histories instead.

In: the faults of `faults`. Out: for each the seed that found it, or that none did; and the share that was
found. Nothing is written to the source itself.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.universe.faults import PLANTED, STORE, Planted

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "src"
FIRST_SEEDS: Final = 25
"""All faults are tried with a few seeds before any is tried with many."""
LIMIT_SECONDS: Final = 240
"""Of processor time. Universes that take longer do not end: a fault is found by that, too."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.universe.planted", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="Number of universes to play for each fault.")
    parser.add_argument("--area", default="", help="Only faults of this area.")
    parser.add_argument("--what", default="", help="Only faults whose description contains this.")
    parser.add_argument("--part", default="1/1", help="Which share of the faults, such as 2/3.")
    args = parser.parse_args()
    part, parts = map(int, args.part.split("/"))
    faults = [fault for fault in PLANTED if args.area in ("", fault.area) and args.what in fault.what][
        part - 1 :: parts
    ]
    found, left = 0, list[Planted]()
    with tempfile.TemporaryDirectory(prefix="universe-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(SOURCE, copy)  # with what is compiled, which is valid for files that are not changed
        for fault in faults:
            answer = play_with(fault, copy, seeds=min(args.seeds, FIRST_SEEDS))
            print(f"{answer or 'not yet':10} {fault.area}: {fault.what}", flush=True)
            found += bool(answer)
            left += [] if answer else [fault]
        for fault in left:
            more = args.seeds - FIRST_SEEDS
            answer = play_with(fault, copy, start=FIRST_SEEDS + 1, seeds=more) if more > 0 else ""
            found += bool(answer)
            print(f"{answer or 'missed':10} {fault.area}: {fault.what}", flush=True)
    print(f"{found} of {len(faults)} found")
    return 0


def play_with(fault: Planted, copy: Path, *, start: int = 1, seeds: int) -> str:
    """What found the fault; empty: nothing did."""
    file = copy / "kuberth" / fault.file
    before = file.read_text(encoding="utf-8")
    file.write_text(planted(before, fault), encoding="utf-8")
    module, number = ("tests.histories", "--runs") if fault.area == STORE else ("tests.universe", "--seeds")
    command = [sys.executable, "-m", module, "--first", "--start", str(start), number, str(seeds)]
    env = {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, preexec_fn=_limit
        )
    finally:
        file.write_text(before, encoding="utf-8")
    if done.returncode == -signal.SIGXCPU:
        return "no end"
    if not done.returncode:
        return ""
    first = next((line for line in done.stdout.splitlines() if line.startswith("seed ")), "")
    return first.rstrip(":").partition(",")[0] or "an error"


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS))


def planted(source: str, fault: Planted) -> str:
    """The source with the fault; ValueError if its text is not there once."""
    if source.count(fault.old) != 1:
        raise ValueError(f"{fault.file} has {source.count(fault.old)} times: {fault.old}")
    return source.replace(fault.old, fault.new)


if __name__ == "__main__":
    sys.exit(main())
