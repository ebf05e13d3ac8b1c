"""`python -m benchmarks.starts`: what the start of every command costs.

In: the commands of `kuberth`. Out: the least CPU of some starts of each, user and system time together. The
modules are compiled beforehand, as an installation does.
"""

from __future__ import annotations

import argparse
import compileall
import resource
import subprocess
import sys
from pathlib import Path

import kuberth
from kuberth.cli import cli

OTHERS = (["--help"], ["version"], ["completion", "bash"], ["config", "print"], ["plugin", "list"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.starts", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="starts of each command")
    rounds = parser.parse_args().rounds
    compileall.compile_dir(Path(kuberth.__file__).parent, quiet=2)
    commands = [*OTHERS, *([name, "--help"] for name in sorted(cli.list_commands(None)))]  # type: ignore[arg-type]  # it needs no context
    least = dict.fromkeys(map(" ".join, commands), float("inf"))
    for _round in range(rounds):
        for command in commands:
            key = " ".join(command)
            least[key] = min(least[key], cpu_of(command))
    for name, seconds in least.items():
        print(f"kuberth {name:<20} {1000 * seconds:>6.0f} ms of CPU")


def cpu_of(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "kuberth", *command], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
