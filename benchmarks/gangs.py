"""`python -m benchmarks.gangs`: what a gang costs, beside as many replicas that stand alone.

In: a cluster table of empty nodes, no API. Out: microseconds of CPU a pod, from the popped pod to all pods of
the gang assumed on their nodes, beside those of the same pods scheduled one by one.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable
from typing import Final

from kuberth.api.scheduling import PodGroup
from kuberth.api.wire import convert
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import FeatureGates
from kuberth.evaluation import Evaluator
from kuberth.framework.cycle_state import GroupAttempt
from kuberth.framework.queued_pod import QueuedPod
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection
from kuberth.queue.slices import finished
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.scheduling.groups.trial import GroupTrial
from kuberth.testing import make_node, make_pod

GATES: Final = FeatureGates({"GenericWorkload": True, "GangScheduling": True})
GROUP: Final = "gang"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gangs", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000, 5000], metavar="N")
    parser.add_argument("--pods", type=int, default=1000, metavar="N", help="pods of the gang (1000)")
    parser.add_argument(
        "--rounds", type=int, default=5, metavar="N", help="rounds; the median is printed (5)"
    )
    options = parser.parse_args()
    print(f"{'nodes':>7}  {'replicas':>9}  {'gang':>9}   microseconds a pod, {options.pods} pods")
    for nodes in options.nodes:
        alone = statistics.median(_round(nodes, options.pods, _one_by_one) for _ in range(options.rounds))
        together = statistics.median(_round(nodes, options.pods, _as_a_gang) for _ in range(options.rounds))
        print(f"{nodes:>7}  {alone:>9.1f}  {together:>9.1f}")


Schedule = Callable[[Evaluator, SchedulingCycle, list[QueuedPod]], None]


def _round(nodes: int, pods: int, schedule: Schedule) -> float:
    """Microseconds of CPU a pod."""
    evaluator = Evaluator(
        (make_node(f"node-{number}", cpu="64", memory="256Gi") for number in range(nodes)),
        feature_gates=GATES,
    )
    group = {
        "metadata": {"name": GROUP, "namespace": "default", "uid": "group"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": pods}}},
    }
    evaluator.add(convert(PodGroup, group))
    member = {"podGroupName": GROUP} if schedule is _as_a_gang else None
    infos = [
        PodInfo(make_pod(f"pod-{number}", cpu="100m", memory="100Mi", schedulingGroup=member))
        for number in range(pods)
    ]
    for info in infos:
        if info.group:
            evaluator.cluster.pod_groups.arrive(info)
    cycle = SchedulingCycle(
        evaluator.cluster,
        nominator=evaluator.nominator,
        metrics=evaluator.runner.metrics,
        rng=random.Random(1),
    )
    waiting = [QueuedPod(info, timestamp_ns=0) for info in infos]
    gc.collect()
    started = time.thread_time()
    schedule(evaluator, cycle, waiting)
    return 1e6 * (time.thread_time() - started) / pods


def _one_by_one(evaluator: Evaluator, cycle: SchedulingCycle, pods: list[QueuedPod]) -> None:
    for queued in pods:
        _expect_placed(cycle.run(queued, evaluator.runner))


def _as_a_gang(evaluator: Evaluator, cycle: SchedulingCycle, pods: list[QueuedPod]) -> None:
    members = evaluator.cluster.pod_groups.get(f"default/{GROUP}")
    assert members is not None
    members.begin_attempt({queued.uid for queued in pods})
    with evaluator.cluster.logged_what_if() as what_if:
        trial = GroupTrial(pods, evaluator.runner, what_if, cycle=cycle, nominator=evaluator.nominator)
        result = finished(trial.run(GroupAttempt(f"default/{GROUP}")))
    if not result.status.is_success:
        raise SystemExit(f"the gang does not fit: {result.status.message}")
    for member in result.members:
        assert member.choice is not None
        member.state.group = None
        _expect_placed(cycle.take(member.state, member.queued, evaluator.runner, member.choice, 0.0))


def _expect_placed(outcome: Placement | Rejection) -> None:
    if not isinstance(outcome, Placement):
        raise SystemExit(f"{outcome.queued.key} fits nowhere: {outcome.status.message}")


if __name__ == "__main__":
    main()
