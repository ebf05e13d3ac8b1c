"""Samples the stacks of a process in a thread, folded and summed over runs.

In: a running process; `python -m kuberth.bench.profiling FOLDED ARGUMENTS...` runs `kuberth` as one. Out:
lines `outermost;…;innermost count`, the input of flame graphs. Samples are taken by CPU time, so that waiting
does not count.
"""

from __future__ import annotations

import runpy
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Final, Self

INTERVAL_SECONDS: Final = 0.005
"""Seconds of CPU time between two samples."""
_DEEPEST: Final = 120
_PLUMBING: Final = (
    "asyncio/runners.py",
    "asyncio/events.py",
    "asyncio/base_events.py",
    "uvloop/",
    "<frozen ",
)
"""Outer frames that every stack has and that say nothing."""


class StackSampler:
    """Samples the thread that enters it, for as long as the block lasts."""

    def __init__(self, folded: Path) -> None:
        """`folded`: the file that the stacks are appended to at the end."""
        self._folded = folded
        self._counts: Counter[str] = Counter()
        self._names: dict[object, str] = {}
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        watched = threading.get_ident()
        self._thread = threading.Thread(target=self._sample, args=(watched,), name="profiler", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        assert self._thread is not None
        self._done.set()
        self._thread.join()
        with self._folded.open("a", encoding="utf-8") as file:
            file.writelines(f"{stack} {count}\n" for stack, count in sorted(self._counts.items()))

    def _sample(self, watched: int) -> None:
        used = time.process_time()
        while not self._done.wait(INTERVAL_SECONDS):
            now = time.process_time()
            if now - used >= INTERVAL_SECONDS:
                used = now
                self._take(sys._current_frames().get(watched))

    def _take(self, frame: FrameType | None) -> None:
        names: list[str] = []
        while frame is not None and len(names) < _DEEPEST:
            name = self._name(frame)
            if name:
                names.append(name)
            frame = frame.f_back
        if names:
            self._counts[";".join(reversed(names))] += 1

    def _name(self, frame: FrameType) -> str:
        code = frame.f_code
        name = self._names.get(code)
        if name is None:
            file = code.co_filename
            if any(part in file for part in _PLUMBING):
                name = ""
            else:
                name = f"{_module(file)}:{code.co_qualname}".replace(";", ",")
            self._names[code] = name
        return name


def _module(file: str) -> str:
    parts = Path(file).with_suffix("").parts
    for root in ("site-packages", "src", f"python{sys.version_info[0]}.{sys.version_info[1]}"):
        if root in parts:
            return ".".join(parts[parts.index(root) + 1 :])
    return parts[-1]


def read_folded(file: Path) -> Mapping[str, int]:
    """Stacks with their number of samples, summed over runs."""
    counts: Counter[str] = Counter()
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            stack, _, count = line.rpartition(" ")
            counts[stack] += int(count)
    return counts


if __name__ == "__main__":
    folded = Path(sys.argv[1])
    sys.argv[1:] = sys.argv[2:]
    with StackSampler(folded):
        runpy.run_module("kuberth", run_name="__main__", alter_sys=True)
