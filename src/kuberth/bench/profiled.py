"""`python -m kuberth.bench.profiled FOLDED ARGUMENTS...`: the `kuberth` command, with its stacks sampled.

In: a file for folded stacks, and a command line. Out: what that command does, and the file when it ends.
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
