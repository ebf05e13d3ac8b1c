"""`python -m benchmarks.calls`: how many Python functions one scheduling cycle of a replica calls.

In: the cluster of `benchmarks.cycle`. Out: by kind of pod, the median number of calls of Python functions and
of built-in ones, and the deepest stack. Unlike microseconds these figures do not depend on the machine.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from benchmarks.cycle import KINDS, WARM_UP, cluster_of, peers, pod_of
from kuberth.evaluation import Evaluator
from kuberth.framework.queued_pod import QueuedPod
from kuberth.scheduling.cycle import SchedulingCycle


class Counted:
    """What happens while a function runs."""

    def __init__(self) -> None:
        self.calls = 0
        self.built_in = 0
        self.deepest = 0
        self._depth = 0

    def note(self, _frame: FrameType, event: str, _arg: Any) -> None:
        """For `sys.setprofile`."""
        if event == "call":
            self.calls += 1
            self._depth += 1
            self.deepest = max(self.deepest, self._depth)
        elif event == "return":
            self._depth -= 1
        elif event == "c_call":
            self.built_in += 1


def main() -> None:
    options = _parser().parse_args()
    evaluator = cluster_of(options.nodes)
    width = max(map(len, options.kinds))
    print(f"{'calls a pod':<{width}}{'Python':>10}{'built-in':>10}{'deepest':>10}")
    for kind in options.kinds:
        counted = _counted(evaluator, kind, pods=options.pods)
        figures = [
            statistics.median_low([each.calls for each in counted]),
            statistics.median_low([each.built_in for each in counted]),
            max(each.deepest for each in counted),
        ]
        print(f"{kind:<{width}}" + "".join(f"{figure:>10}" for figure in figures))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000, metavar="N", help="Nodes of the cluster (5000).")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="KIND")
    parser.add_argument("--pods", type=int, default=20, metavar="N", help="Pods counted of each kind (20).")
    return parser


def _counted(evaluator: Evaluator, kind: str, *, pods: int) -> Sequence[Counted]:
    cycle = SchedulingCycle(
        evaluator.cluster,
        nominator=evaluator.nominator,
        metrics=evaluator.runner.metrics,
        rng=random.Random(1),
    )
    found = []
    with peers(evaluator, kind):
        for number in range(WARM_UP + pods):
            queued = QueuedPod(pod_of(f"pending-{number}", kind), timestamp_ns=0)
            counted = Counted()
            sys.setprofile(counted.note)
            try:
                cycle.run(queued, evaluator.runner)
            finally:
                sys.setprofile(None)
            found.append(counted)
    return found[WARM_UP:]


if __name__ == "__main__":
    main()
