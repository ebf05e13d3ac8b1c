"""`python -m benchmarks.queue`: what waiting pods cost, by their number, by queueing hints and by queue.

In: a scheduler that does not run; objects are handed to its intake. Out: tables of the median microseconds of
an event, or of a pod's way from its arrival to its node, and how they grow with the pods that wait for
something else. KEP-3521 and KEP-4247 ask for these: gated pods and unschedulable pods must not slow down
what does not concern them.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

import msgspec

from kuberth.api.core import Node, NodeCondition, Pod
from kuberth.assembly.scheduler import Scheduler
from kuberth.config import FeatureGates
from kuberth.queue.fair_share import fair_share
from kuberth.queue.interface import QueueFactory
from kuberth.testing import MemoryApi, make_node, make_pod

ZONE: Final = "topology.kubernetes.io/zone"
NODES: Final = 100
WARM_UP: Final = 20

SECONDS: Final = 3.0
"""How long one kind of event is measured at most."""
QUEUES: Final[Mapping[str, QueueFactory | None]] = {"default": None, "fair share": fair_share()}

Action = Callable[[int], None]
Figures = Mapping[str, Sequence[float]]


def main() -> None:
    options = _parser().parse_args()
    gated: Sequence[int] = sorted(set(options.gated))
    unschedulable: Sequence[int] = [0, options.unschedulable]
    for title, waiting, numbers in (
        ("gated pods", "gated", gated),
        ("unschedulable pods", "unschedulable", unschedulable),
    ):
        on, off = (
            _events(hints=hints, repeat=options.repeat, **{waiting: numbers}) for hints in (True, False)
        )
        for hints, figures in (("on", on), ("off", off)):
            for line in _table(f"hints {hints}, {title}", numbers, figures):
                print(line)
            print()
        for line in _pairs(f"off / on, {title}", numbers, on, off):
            print(line)
        print()
    for line in _table("a pod's way", list(QUEUES), _queues(options.tenants, repeat=options.repeat)):
        print(line)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue", description=__doc__)
    parser.add_argument("--gated", type=int, nargs="+", default=[0, 1000, 20000], metavar="N")
    parser.add_argument("--unschedulable", type=int, default=10000, metavar="N")
    parser.add_argument("--tenants", type=int, nargs="+", default=[1, 10, 100], metavar="N")
    parser.add_argument("--repeat", type=int, default=200, metavar="N", help="events measured of each kind")
    return parser


def _events(
    *, hints: bool, repeat: int, gated: Sequence[int] = (), unschedulable: Sequence[int] = ()
) -> Figures:
    """Events that concern none of the waiting pods, and a pod's whole way beside them."""
    medians: dict[str, list[float]] = {}
    for number in gated or unschedulable:
        scheduler = _scheduler(hints=hints)
        if gated:
            _add_gated(scheduler, number)
        else:
            _add_unschedulable(scheduler, number)
        for name, action in _actions(scheduler).items():
            medians.setdefault(name, []).append(_median(action, repeat))
    return medians


def _queues(tenants: Sequence[int], *, repeat: int) -> Figures:
    """A pod's way through the default queue and through the one that shares fairly."""
    medians: dict[str, list[float]] = {}
    for number in sorted(set(tenants)):
        for factory in QUEUES.values():
            scheduler = _scheduler(hints=True, queue=factory)
            for index in range(number * 2):
                _arrive(scheduler, make_pod(f"waiting-{index}", namespace=f"tenant-{index % number}"))
            figure = _median(_placement(scheduler, tenants=number), repeat)
            medians.setdefault(f"{number} tenants", []).append(figure)
    return medians


def _scheduler(*, hints: bool, queue: QueueFactory | None = None) -> Scheduler:
    gates = FeatureGates({"SchedulerQueueingHints": hints})
    scheduler = Scheduler(MemoryApi(), feature_gates=gates, queue=queue)
    for number in range(NODES):
        scheduler.intake.node(None, _node(number))
    return scheduler


def _node(number: int, **more: Any) -> Node:
    return make_node(f"node-{number}", cpu="32", pods="100000", labels={ZONE: f"zone-{number % 3}"}, **more)


def _add_gated(scheduler: Scheduler, number: int) -> None:
    for index in range(number):
        _arrive(scheduler, make_pod(f"gated-{index}", gates=["wait"]))


def _add_unschedulable(scheduler: Scheduler, number: int) -> None:
    """Pods that are too large for every node."""
    for index in range(number):
        _arrive(scheduler, make_pod(f"large-{index}", cpu="64"))
        queued = scheduler.queue.pop_nowait()
        assert queued is not None
        queued.unschedulable_plugins = {"NodeResourcesFit"}
        scheduler.queue.requeue(queued)


def _arrive(scheduler: Scheduler, pod: Pod) -> None:
    scheduler.intake.pod(None, pod)


def _actions(scheduler: Scheduler) -> Mapping[str, Action]:
    """By name; each gets the number of the turn it is called for."""
    plain = [_node(number) for number in range(NODES)]
    not_ready = [_not_ready(node) for node in plain]
    marked = [_with_annotation(node) for node in plain]

    def flip(versions: Sequence[Node], others: Sequence[Node]) -> Action:
        def act(turn: int) -> None:
            number = turn // 2 % NODES
            old, new = versions[number], others[number]
            scheduler.intake.node(*((old, new) if turn % 2 == 0 else (new, old)))

        return act

    def resize(turn: int) -> None:
        """Add a node that is too small for the waiting pods, and remove it again."""
        node = make_node(f"small-{turn}", cpu="1")
        scheduler.intake.node(None, node)
        scheduler.intake.node(node, None)

    return {
        "node condition": flip(plain, not_ready),
        "node annotation": flip(plain, marked),
        "resizing cluster": resize,
        "a pod's way": _placement(scheduler),
    }


def _placement(scheduler: Scheduler, *, tenants: int = 1) -> Action:
    """A pod comes, is popped, and bound to a node; without its scheduling cycle."""
    names = count()

    def act(turn: int) -> None:
        name = f"pod-{next(names)}"
        _arrive(scheduler, make_pod(name, namespace=f"tenant-{turn % tenants}", cpu="100m", priority=1))
        queued = scheduler.queue.pop_nowait()
        assert queued is not None
        replace = msgspec.structs.replace
        bound = replace(queued.pod, spec=replace(queued.pod.spec, node_name=f"node-{turn % NODES}"))
        scheduler.queue.done(queued.uid)
        scheduler.intake.pod(queued.pod, bound)

    return act


def _not_ready(node: Node) -> Node:
    replace = msgspec.structs.replace
    conditions = (NodeCondition(type="Ready", status="False"),)
    return replace(node, status=replace(node.status, conditions=conditions))


def _with_annotation(node: Node) -> Node:
    replace = msgspec.structs.replace
    return replace(node, metadata=replace(node.metadata, annotations={"seen": "yes"}))


def _median(action: Action, repeat: int) -> float:
    """Microseconds a turn."""
    warm_until = time.perf_counter() + SECONDS / 3
    turns = count()
    while (turn := next(turns)) < WARM_UP and time.perf_counter() < warm_until:
        action(turn)
    gc.collect()
    figures: list[float] = []
    while len(figures) < repeat and sum(figures) < SECONDS:
        figures.append(_seconds(action, next(turns)))
    return 1e6 * statistics.median(figures)


def _seconds(action: Action, turn: int) -> float:
    started = time.perf_counter()
    action(turn)
    return time.perf_counter() - started


def _table(title: str, columns: Sequence[object], figures: Figures) -> Iterator[str]:
    width = max(len(title), *map(len, figures))
    yield f"{title:<{width}}" + "".join(f"{column!s:>22}" for column in columns)
    for name, medians in figures.items():
        cells = [f"{figure:.0f} µs ({figure / medians[0]:.1f}x)" for figure in medians]
        yield f"{name:<{width}}" + "".join(f"{cell:>22}" for cell in cells)


def _pairs(title: str, columns: Sequence[object], on: Figures, off: Figures) -> Iterator[str]:
    """How much longer the same takes without hints."""
    width = max(len(title), *map(len, on))
    yield f"{title:<{width}}" + "".join(f"{column!s:>22}" for column in columns)
    for name in on:
        ratios = (without / with_hints for with_hints, without in zip(on[name], off[name], strict=True))
        yield f"{name:<{width}}" + "".join(f"{f'{ratio:.2f}x':>22}" for ratio in ratios)


if __name__ == "__main__":
    main()
