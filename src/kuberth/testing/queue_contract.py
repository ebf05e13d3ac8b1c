"""The contract of a scheduling queue as rules that any queue can be checked against.

    @pytest.mark.parametrize("rule", QUEUE_CONTRACT, ids=str)
    def test_my_queue(rule: QueueRule) -> None:
        rule(MyQueue)

`queue_contract(MyQueue)` checks all rules at once. In: a queue factory. Out: nothing, or an AssertionError
that names the rule.
"""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import msgspec

from kuberth.api.core import Pod
from kuberth.clock import NANOSECONDS
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.errors import QueueError
from kuberth.framework.cluster_events import Action, ClusterEvent, Hint, Resource
from kuberth.framework.extension_points import QueueSortPlugin
from kuberth.framework.handle import PodEvent
from kuberth.framework.nominator import Nominator
from kuberth.framework.profile import RegisteredHint
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.status import SUCCESS, Status
from kuberth.informers.store import Stores
from kuberth.local.memory_api import MemoryApi
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.queue.interface import QueueContext, QueueFactory, SchedulingQueue
from kuberth.testing.clock import FakeClock
from kuberth.testing.factories import make_pod

SCHEDULER: Final = "default-scheduler"
REJECTOR: Final = "Rejector"
"""The plugin that rejects pods here; a new node requeues them."""
NODE_ADDED: Final = ClusterEvent(Resource.NODE, Action.ADD)
_GATES: Final = "Gates"
_GATES_GONE: Final = ClusterEvent(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
_BACKOFF_SECONDS: Final = 60.0
"""More than any backoff."""


class _ByPriority(QueueSortPlugin):
    name = "ByPriority"

    def sort_key(self, queued: QueuedPod) -> tuple[int, int]:
        return -queued.info.priority, queued.timestamp_ns


class _Recorder:
    def record(self, event: PodEvent) -> None: ...


def _spawn(work: Coroutine[Any, Any, None], *, name: str) -> None:
    work.close()


def _pre_enqueue(pod: Pod, _first: str) -> Status:
    return Status.unresolvable("it has scheduling gates").by(_GATES) if pod.spec.scheduling_gates else SUCCESS


def _after_own_gates(pod: Pod, _old: object, new: object) -> Hint:
    is_own = isinstance(new, Pod) and new.metadata.uid == pod.metadata.uid
    return Hint.QUEUE if is_own else Hint.SKIP


def make_queue_context(clock: FakeClock | None = None, **settings: Any) -> QueueContext:
    """A context for a queue without a scheduler.

    Pods sort by priority, scheduling gates gate pods, and the plugin "Rejector" waits for new nodes.
    `settings` are fields of `QueueContext`.
    """
    given: dict[str, Any] = {
        "sort": _ByPriority(),
        "clock": FakeClock(NANOSECONDS) if clock is None else clock,
        "cluster": ClusterTable(),
        "nominator": Nominator(),
        "metrics": SchedulerMetrics(),
        "stores": Stores(),
        "api": MemoryApi(),
        "recorder": _Recorder(),
        "spawn": _spawn,
        "pre_enqueue": {SCHEDULER: _pre_enqueue},
        "hints": {
            SCHEDULER: [
                RegisteredHint(REJECTOR, NODE_ADDED, None),
                RegisteredHint(_GATES, _GATES_GONE, _after_own_gates),
            ]
        },
    }
    return QueueContext(**{**given, **settings})


class _Bench:
    """A queue and a clock, with the steps that rules take."""

    def __init__(self, factory: QueueFactory) -> None:
        self.factory = factory
        self.clock = FakeClock(NANOSECONDS)
        self.context = make_queue_context(self.clock)
        self.queue: SchedulingQueue = factory(self.context)
        assert isinstance(self.queue, SchedulingQueue), f"the factory returned {self.queue!r}"
        self.notified = 0
        self.queue.when_ready(self._notify)

    def _notify(self) -> None:
        self.notified += 1

    def add(self, name: str, **fields: Any) -> Pod:
        pod = make_pod(name, **fields)
        self.queue.add(PodInfo(pod))
        return pod

    def pop(self, name: str) -> QueuedPod:
        queued = self.queue.pop_nowait()
        assert queued is not None, f"pop_nowait returned None instead of {name}"
        assert isinstance(queued, QueuedPod), f"pop_nowait returned {queued!r} instead of a QueuedPod"
        assert queued.pod.metadata.name == name, f"pop_nowait returned {queued.key} instead of {name}"
        return queued

    def reject(self, queued: QueuedPod, *plugins: str) -> None:
        queued.unschedulable_plugins = set(plugins)
        queued.pending_plugins = set()
        self.queue.requeue(queued)

    def rejected(self, name: str) -> Pod:
        """A pod that the plugin has rejected."""
        pod = self.add(name)
        self.reject(self.pop(name), REJECTOR)
        return pod

    def pass_time(self, seconds: float, *, until: Callable[[], bool] = lambda: False) -> None:
        """Tick as often as the queue requests."""
        left = seconds
        while left > 0 and not until():
            due = self.queue.tick()
            assert isinstance(due, int | float), f"tick returned {due!r} instead of a number of seconds"
            assert 0 <= due < math.inf, f"tick returned {due!r}"
            step = min(max(due, 0.01), left)
            self.clock.advance(step)
            left -= step
        self.queue.tick()

    def pop_within(self, name: str, seconds: float) -> QueuedPod:
        found: list[QueuedPod] = []

        def popped() -> bool:
            if not found and (queued := self.queue.pop_nowait()) is not None:
                found.append(queued)
            return bool(found)

        self.pass_time(seconds, until=popped)
        assert popped(), f"pod {name} did not come back within {seconds:g} s; {self.places()}"
        assert found[0].pod.metadata.name == name
        return found[0]

    def waiting(self) -> list[str]:
        return [queued.key for pods in self.queue.pending_pods().values() for queued in pods]

    def in_flight(self) -> list[str]:
        return [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in self.queue.in_flight()]

    def places(self) -> str:
        pending = {
            name: [queued.key for queued in pods] for name, pods in self.queue.pending_pods().items() if pods
        }
        return f"pending pods: {pending}; in flight: {self.in_flight()}"

    def expect(self, *, waiting: Sequence[str] = (), in_flight: Sequence[str] = ()) -> None:
        """Check that every pod is in exactly one place, and that all methods agree on it."""
        assert sorted(self.waiting()) == sorted(f"default/{name}" for name in waiting), self.places()
        assert sorted(self.in_flight()) == sorted(f"default/{name}" for name in in_flight), self.places()
        assert self.queue.waiting_count() == len(waiting), "waiting_count disagrees with pending_pods"
        for queue, pods in self.queue.pending_pods().items():
            for queued in pods:
                assert self.queue.queue_of(queued.key) == queue, "queue_of disagrees with pending_pods"
                assert self.queue.get(queued.key) is queued, "get disagrees with pending_pods"
        for name in in_flight:
            assert self.queue.get(f"default/{name}") is None, f"get returns {name}, which is in flight"


def _close(queue: SchedulingQueue) -> None:
    closing = queue.close()
    if inspect.iscoroutine(closing):
        closing.close()  # rules run without an event loop


class QueueRule:
    """One rule of the contract: call it with a queue factory."""

    def __init__(self, check: Callable[[_Bench], None]) -> None:
        self._check = check
        self.name = check.__name__.strip("_").replace("_", " ")
        """The rule as a sentence."""

    def __call__(self, factory: QueueFactory) -> None:
        """Check a queue. AssertionError if it breaks the rule."""
        bench = _Bench(factory)
        try:
            self._check(bench)
        except Exception as exc:
            raise AssertionError(f"queue contract broken: {self.name}: {exc}") from exc
        finally:
            _close(bench.queue)

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    __repr__ = __str__


_RULES: Final[list[QueueRule]] = []


def _rule(check: Callable[[_Bench], None]) -> None:
    """Add a rule to the contract; its name is that of the function."""
    _RULES.append(QueueRule(check))


@_rule
def _a_new_pod_is_popped_once(bench: _Bench) -> None:
    assert bench.queue.pop_nowait() is None, "an empty queue returned a pod"
    bench.add("p")
    bench.expect(waiting=["p"])
    queued = bench.pop("p")
    assert queued.attempts == 1, f"attempts is {queued.attempts} after the first pop"
    bench.expect(in_flight=["p"])
    assert bench.queue.pop_nowait() is None, "the pod was popped twice"


@_rule
def _a_pod_added_again_waits_once(bench: _Bench) -> None:
    pod = bench.add("p")
    bench.queue.add(PodInfo(pod))
    bench.expect(waiting=["p"])


@_rule
def _a_new_pod_of_the_same_name_replaces_the_old_one(bench: _Bench) -> None:
    bench.add("p")
    new = bench.add("p")
    bench.expect(waiting=["p"])
    assert bench.pop("p").uid == new.metadata.uid, "the old pod was popped"


@_rule
def _an_update_of_a_waiting_pod_is_what_is_popped(bench: _Bench) -> None:
    old = bench.add("p")
    new = _relabelled(old)
    bench.queue.update(old, PodInfo(new))
    bench.expect(waiting=["p"])
    assert bench.pop("p").pod is new, "the old version was popped"


@_rule
def _an_update_of_an_unknown_pod_adds_it(bench: _Bench) -> None:
    pod = make_pod("p")
    bench.queue.update(pod, PodInfo(_relabelled(pod)))
    bench.expect(waiting=["p"])


@_rule
def _an_update_of_a_pod_in_flight_does_not_queue_it(bench: _Bench) -> None:
    pod = bench.add("p")
    bench.pop("p")
    bench.queue.update(pod, PodInfo(_relabelled(pod)))
    bench.expect(in_flight=["p"])


@_rule
def _a_deleted_pod_is_gone(bench: _Bench) -> None:
    waiting = bench.add("p")
    bench.queue.delete(waiting)
    bench.queue.delete(waiting)
    bench.expect()
    bench.queue.delete(bench.rejected("q"))
    bench.expect()
    bench.pass_time(2 * bench.context.max_unschedulable_seconds)
    assert bench.queue.pop_nowait() is None, "a deleted pod came back"


@_rule
def _deleting_a_pod_in_flight_leaves_its_cycle_to_end_it(bench: _Bench) -> None:
    pod = bench.add("p")
    queued = bench.pop("p")
    bench.queue.delete(pod)
    bench.expect(in_flight=["p"])
    bench.queue.done(queued.uid)
    bench.expect()


@_rule
def _done_ends_the_flight(bench: _Bench) -> None:
    bench.queue.done("unknown")
    bench.add("p")
    queued = bench.pop("p")
    bench.queue.done(queued.uid)
    bench.queue.done(queued.uid)
    bench.expect()
    bench.pass_time(2 * bench.context.max_unschedulable_seconds)
    assert bench.queue.pop_nowait() is None, "a pod that was done came back"


@_rule
def _requeue_ends_the_flight_as_done_does(bench: _Bench) -> None:
    bench.rejected("p")
    bench.expect(waiting=["p"])


@_rule
def _requeue_of_a_waiting_pod_raises_queue_error(bench: _Bench) -> None:
    pod = bench.add("p")
    queued = bench.pop("p")
    bench.queue.add(PodInfo(pod))
    try:
        bench.reject(queued, REJECTOR)
    except QueueError:
        bench.expect(waiting=["p"])
    else:
        raise AssertionError("no QueueError")


@_rule
def _an_event_brings_a_rejected_pod_back(bench: _Bench) -> None:
    bench.rejected("p")
    bench.queue.move(NODE_ADDED, None, None)
    assert bench.pop_within("p", _BACKOFF_SECONDS).attempts == 2
    bench.expect(in_flight=["p"])


@_rule
def _an_event_during_the_flight_is_not_lost(bench: _Bench) -> None:
    bench.add("p")
    queued = bench.pop("p")
    bench.queue.move(NODE_ADDED, None, None)
    bench.reject(queued, REJECTOR)
    bench.pop_within("p", _BACKOFF_SECONDS)


@_rule
def _a_pod_after_an_error_comes_back_without_an_event(bench: _Bench) -> None:
    bench.add("p")
    bench.reject(bench.pop("p"))
    bench.pop_within("p", _BACKOFF_SECONDS)


@_rule
def _no_rejected_pod_waits_for_ever(bench: _Bench) -> None:
    bench.rejected("p")
    bench.pop_within("p", 2 * bench.context.max_unschedulable_seconds + _BACKOFF_SECONDS)


@_rule
def _activate_brings_a_rejected_pod_back_at_once(bench: _Bench) -> None:
    pod = bench.rejected("p")
    bench.queue.activate({"default/p": pod, "default/unknown": make_pod("unknown")})
    bench.pop("p")


@_rule
def _a_gated_pod_waits_until_its_gate_is_gone(bench: _Bench) -> None:
    old = bench.add("p", gates=["example.com/wait"])
    bench.expect(waiting=["p"])
    bench.queue.activate({"default/p": old})
    bench.pass_time(2 * bench.context.max_unschedulable_seconds)
    assert bench.queue.pop_nowait() is None, "a gated pod was popped"
    spec = msgspec.structs.replace(old.spec, scheduling_gates=())
    metadata = msgspec.structs.replace(old.metadata, resource_version="2")
    bench.queue.update(old, PodInfo(msgspec.structs.replace(old, spec=spec, metadata=metadata)))
    bench.pop_within("p", _BACKOFF_SECONDS)


@_rule
def _it_notifies_when_a_pod_is_ready(bench: _Bench) -> None:
    pod = bench.add("p")
    assert bench.notified, "`notify` was not called when a pod was added"
    bench.reject(bench.pop("p"), REJECTOR)
    before = bench.notified
    bench.queue.activate({"default/p": pod})
    assert bench.notified > before, "`notify` was not called when a pod was activated"


@_rule
def _a_pod_can_be_taken_out_of_order(bench: _Bench) -> None:
    if not bench.queue.gives_out_of_order:
        return
    bench.add("first", priority=9)
    second, gated = bench.add("second"), bench.add("gated", gates=["example.com/wait"])
    queued = bench.queue.take_nowait(second)
    assert queued is not None, "take_nowait returned None for a waiting pod"
    assert queued.uid == second.metadata.uid, f"take_nowait returned {queued.key}"
    assert bench.queue.take_nowait(gated) is None, "take_nowait returned a gated pod"
    assert bench.queue.take_nowait(make_pod("unknown")) is None, "take_nowait returned an unknown pod"
    bench.expect(waiting=["first", "gated"], in_flight=["second"])


@_rule
def _a_queue_takes_over_every_waiting_pod(bench: _Bench) -> None:
    for name in ("rejected", "failed", "flying"):
        bench.add(name)
    popped = {
        queued.pod.metadata.name: queued for _ in range(3) if (queued := bench.queue.pop_nowait()) is not None
    }
    bench.reject(popped["rejected"], REJECTOR)
    bench.reject(popped["failed"])
    bench.add("ready")
    bench.add("gated", gates=["example.com/wait"])
    new = bench.factory(bench.context)
    new.when_ready(lambda: None)
    new.take_over(bench.queue)
    _close(bench.queue)
    bench.queue = new
    waiting = sorted(bench.waiting())
    assert waiting == ["default/failed", "default/gated", "default/ready", "default/rejected"], bench.places()


@_rule
def _pods_are_in_one_place_whatever_happens(bench: _Bench) -> None:
    rng = random.Random(0)
    pods: dict[str, Pod] = {}
    flying: dict[str, QueuedPod] = {}
    for _step in range(400):
        name = rng.choice("abcdef")
        action = rng.choice(
            ["add", "delete", "pop", "pop", "reject", "fail", "done", "move", "time", "update"]
        )
        if action == "add" and name not in pods:
            pods[name] = bench.add(name, priority=rng.randrange(3))
        elif action == "delete" and name in pods and name not in flying:
            bench.queue.delete(pods.pop(name))
        elif action == "update" and name in pods:
            old, pods[name] = pods[name], _relabelled(pods[name], value=str(_step))
            bench.queue.update(old, PodInfo(pods[name]))
        elif action == "pop" and (queued := bench.queue.pop_nowait()) is not None:
            popped = queued.pod.metadata.name
            assert popped not in flying, f"{popped} was popped while it is in flight"
            flying[popped] = queued
        elif action in ("reject", "fail") and name in flying:
            bench.reject(flying.pop(name), *([REJECTOR] if action == "reject" else []))
        elif action == "done" and name in flying:
            bench.queue.done(flying.pop(name).uid)
            del pods[name]
        elif action == "move":
            bench.queue.move(NODE_ADDED, None, None)
        elif action == "time":
            bench.pass_time(rng.choice([0.5, 2.0, 20.0]))
        bench.expect(waiting=[each for each in pods if each not in flying], in_flight=list(flying))


QUEUE_CONTRACT: Final = tuple(_RULES)
"""All rules that the scheduler relies on, for `pytest.mark.parametrize`."""


def queue_contract(factory: QueueFactory) -> None:
    """Check a queue against every rule, each on a new queue. AssertionError names the first violation."""
    for rule in QUEUE_CONTRACT:
        rule(factory)


def _relabelled(pod: Pod, *, value: str = "new") -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, labels={"version": value}, resource_version=value)
    return msgspec.structs.replace(pod, metadata=metadata)
