"""`python -m kuberth.bench.profiled FOLDED ARGUMENTS...`: run `kuberth` under the profiler.

In: a file for folded stacks, and a command line. Out: the command's effects, and the file at the end.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from kuberth.bench.profiling import StackSampler

if __name__ == "__main__":
    folded = Path(sys.argv[1])
    sys.argv[1:] = sys.argv[2:]
    with StackSampler(folded):
        runpy.run_module("kuberth", run_name="__main__", alter_sys=True)
