"""Plugins drawn at random, each with a statement that is true, over clusters that never stop changing.

Two worlds live through the same: in one the plugins give their statements, in the other they give none. They
decide alike: the same nodes, statuses, words and scores, the same victims, and the same pods are woken.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberth.api.core import Node, Pod
from kuberth.changes import Version
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.config import KubeSchedulerConfiguration
from kuberth.evaluation import Evaluator
from kuberth.framework import (
    Action,
    ClusterEvent,
    CycleState,
    DependsOn,
    Diagnosis,
    EnqueueExtensions,
    EventWithHint,
    FilterPlugin,
    Handle,
    Hint,
    Inputs,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    PreFilterResult,
    QueuedPod,
    Registry,
    Resource,
    ScorePlugin,
    StateKey,
    Status,
)
from kuberth.framework.diagnosis import FitError
from kuberth.framework.status import SKIP
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.outcomes.placement import Placement
from kuberth.plugins import in_tree_registry
from kuberth.plugins.default_preemption.plugin import Chosen, DefaultPreemption
from kuberth.queue.hints import Hints, QueueingStrategy
from kuberth.queue.unschedulable import EquallyRejected, UnschedulablePods
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.testing import make_node, make_pod
from tests.unit.framework.harness import profile_config

FIELDS: dict[str, Callable[[Pod], object]] = {
    "metadata.labels": lambda pod: pod.metadata.labels,
    "metadata.annotations": lambda pod: pod.metadata.annotations,
    "spec.tolerations": lambda pod: [each.key for each in pod.spec.tolerations],
}
SCOPES = list(DependsOn)
NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)


def chance(*parts: object) -> int:
    """A number from 0 to 99 that depends on the parts alone."""
    return zlib.crc32(repr(parts).encode()) % 100


@dataclass(frozen=True)
class Rule:
    """How one plugin answers, and what it states."""

    name: str
    fields: tuple[str, ...]
    """What it reads of a pod, hints included."""
    prepares: DependsOn
    judges: DependsOn
    ranks: DependsOn
    mends: DependsOn
    rejects: int
    """The share of its verdicts that are rejections, in percent."""
    follows_version: bool
    needs_tolerations: bool
    """It has nothing to do with a pod that tolerates nothing."""
    stated: bool
    states_more: bool
    """It states more fields than it reads, and that all depends on anything."""


@st.composite
def rules(draw: st.DrawFn) -> list[Rule]:
    return [
        Rule(
            name=f"Random{number}",
            fields=tuple(sorted(draw(st.sets(st.sampled_from(sorted(FIELDS)))))),
            prepares=draw(st.sampled_from([DependsOn.POD, DependsOn.ANYTHING])),
            judges=draw(st.sampled_from(SCOPES)),
            ranks=draw(st.sampled_from(SCOPES)),
            mends=draw(st.sampled_from([DependsOn.POD, DependsOn.CLUSTER, DependsOn.ANYTHING])),
            rejects=draw(st.sampled_from([20, 60, 95])),
            follows_version=draw(st.booleans()),
            needs_tolerations=draw(st.booleans()),
            stated=draw(st.integers(0, 4)) > 0,
            states_more=draw(st.integers(0, 5)) == 0,
        )
        for number in range(draw(st.integers(1, 3)))
    ]


PREPARED: StateKey[int] = StateKey("prepared")


def plugin_of(rule: Rule, version: Version, memory: Version, *, with_statement: bool) -> type[Plugin]:
    def seen(pod: Pod) -> tuple[object, ...]:
        return (
            rule.name,
            *(FIELDS[field](pod) for field in rule.fields),
            version.version * rule.follows_version,
        )

    def of_node(scope: DependsOn, node: NodeRow) -> tuple[object, ...]:
        parts: tuple[object, ...] = ()
        if scope is not DependsOn.POD:
            parts += (sorted(node.labels.items()), node.allocatable("cpu"))
        if scope.follows_pods or scope.spans_nodes:
            parts += (node.pod_count, node.requested("cpu"))
        if scope is DependsOn.NODE or scope.spans_nodes:
            parts += (sorted(sorted(info.labels.items()) for info in node.pods),)
        return parts + of_table(scope, node.table)

    def of_table(scope: DependsOn, table: ClusterTable) -> tuple[object, ...]:
        parts: tuple[object, ...] = ()
        if scope.spans_nodes:
            parts += (int(table.pod_count.sum()), sorted(table.all_nodes().names()))
        if scope is DependsOn.ANYTHING:
            parts += (memory.version,)
        return parts

    def is_idle(pod: Pod) -> bool:
        return rule.needs_tolerations and not pod.spec.tolerations

    class Random(PreFilterPlugin, FilterPlugin, PostFilterPlugin, ScorePlugin, EnqueueExtensions):
        name = rule.name

        def __init__(self, _args: object, handle: Handle) -> None:
            self._table = handle.cluster

        def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
            if is_idle(pod):
                return SKIP
            cluster = (
                nodes.table.placed_count * (rule.prepares is DependsOn.ANYTHING),
                nodes.table.node_count * (rule.prepares is DependsOn.ANYTHING),
            )
            number = chance("prepare", seen(pod), cluster)
            state.write(PREPARED_BY[rule.name], number)
            if number < 15:
                return SKIP
            if number < 20:
                return Status.unschedulable(f"no {number}")
            return PreFilterResult(frozenset({"n0", "n1"})) if number < 24 else None

        def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
            if is_idle(pod):
                return None
            number = chance(
                "judge", seen(pod), state.read(PREPARED_BY[rule.name]), of_node(rule.judges, node)
            )
            if number < rule.rejects * 3 // 4:
                return Status.unschedulable(f"{rule.name} says {number}")
            return Status.unresolvable(f"{rule.name} never") if number < rule.rejects else None

        def post_filter(
            self, state: CycleState, pod: Pod, _diagnosis: Diagnosis
        ) -> tuple[PostFilterResult | None, Status]:
            seen_of_pod = () if rule.prepares is DependsOn.ANYTHING else seen(pod)
            number = chance("mend", rule.name, seen_of_pod, of_table(rule.mends, self._table))
            if rule.prepares is DependsOn.ANYTHING and rule.name not in state.skip_filter:
                number += chance("mend", pod.metadata.uid)
            return None, Status.unschedulable(f"{rule.name} mends {number}")

        def score(self, _state: CycleState, pod: Pod, node: NodeRow) -> int:
            return 0 if is_idle(pod) else chance("rank", seen(pod), of_node(rule.ranks, node))

        def events_to_register(self) -> Iterable[EventWithHint]:
            return [EventWithHint(NODE_ADD, self._after_node)]

        def _after_node(self, pod: Pod, _old: object, new: object) -> Hint:
            assert isinstance(new, Node)
            return Hint.QUEUE if chance("hint", seen(pod), new.metadata.name) < 30 else Hint.SKIP

    if with_statement and rule.stated:
        fields = {*FIELDS} if rule.states_more else {*rule.fields}
        scopes = (rule.prepares, rule.judges, rule.ranks, rule.mends)
        if rule.states_more:
            scopes = (DependsOn.ANYTHING,) * 4
        Random.inputs = Inputs(
            fields,
            pre_filter=scopes[0],
            filter=scopes[1],
            score=scopes[2],
            post_filter=scopes[3],
            only_with={"spec.tolerations"} if rule.needs_tolerations else (),
            versions=(version,) if rule.follows_version else (),
        )
    return Random


PREPARED_BY = {f"Random{number}": StateKey[int](f"prepared by {number}") for number in range(3)}


class Lazy(random.Random):
    """Every search begins at the first row: an attempt that is not made draws no number."""

    def randrange(self, *_args: Any) -> int:
        return 0


class WithoutEvictions(DefaultPreemption):
    """Names the victims and leaves them alone."""

    def _evict_for(self, _state: CycleState, chosen: Chosen) -> tuple[PostFilterResult | None, Status | None]:
        best = chosen.best
        victims = [info.key for info in best.victims.pods]
        return PostFilterResult(best.node_name), Status.unschedulable(f"victims {victims}")


class World:
    """One of the two."""

    def __init__(self, drawn: Sequence[Rule], *, with_statements: bool) -> None:
        self.version, self.memory = Version(), Version()
        plugins = {
            rule.name: plugin_of(rule, self.version, self.memory, with_statement=with_statements)
            for rule in drawn
        }
        names = ["PrioritySort", "DefaultBinder", *plugins, "NodeResourcesFit", "DefaultPreemption"]
        config = KubeSchedulerConfiguration(profiles=(profile_config(names),))
        in_tree = in_tree_registry()
        factories = {name: in_tree[name] for name in in_tree} | {
            "DefaultPreemption": lambda args, handle: WithoutEvictions(args, handle, rng=Lazy())
        }
        self.evaluator = Evaluator(
            config=config, registry=Registry(factories | plugins), with_plans=with_statements
        )
        self.cluster = self.evaluator.cluster
        self.cycle = SchedulingCycle(
            self.cluster,
            nominator=self.evaluator.nominator,
            metrics=self.evaluator.runner.metrics,
            rng=random.Random(1),
            check_every=0,
        )
        hints = {"default-scheduler": self.evaluator.runner.profile.hints}
        self.hints = Hints(hints, SchedulerMetrics())
        self.queue = UnschedulablePods(self.hints)
        self.repeated = 0
        """Attempts that ended as that of an equal pod did, without asking plugins."""

    def decide(self, pod: Pod) -> object:
        """Everything that a search and a ranking say."""
        state, diagnosis, runner = CycleState(PodInfo(pod)), Diagnosis(), self.evaluator.runner
        found = self.cycle.search(state, pod, runner, diagnosis)
        if isinstance(found, Status):
            return found
        nodes, evaluated = found
        if not len(nodes):
            rows = {name: self.cluster.row_of(name) for name in self.cluster.all_nodes().names()}
            statuses = {name: diagnosis.status_of(name, row=row) for name, row in rows.items()}
            return statuses, diagnosis.message(9), diagnosis.unschedulable_plugins
        scores = self.cycle.rank(state, pod, runner, nodes)
        if isinstance(scores, Status):
            return scores
        by_plugin = {name: given.tolist() for name, given in scores.by_plugin.items()}
        return nodes.names(), evaluated, by_plugin, scores.totals.tolist()

    def attempt(self, pod: Pod) -> object:
        """How a whole attempt ends; the pod leaves its node again."""
        self.evaluator.stores.of(Pod).set(pod)
        outcome = self.cycle.run(QueuedPod(PodInfo(pod), timestamp_ns=0), self.evaluator.runner)
        if isinstance(outcome, Placement):
            self.cluster.forget_pod(outcome.queued.uid)
            return outcome.node_name
        self.repeated += outcome.is_repeated
        found: object = None
        if isinstance(outcome.status.cause, FitError):
            diagnosis = outcome.status.cause.diagnosis
            rows = {name: self.cluster.row_of(name) for name in self.cluster.all_nodes().names()}
            found = (
                {name: diagnosis.status_of(name, row=row) for name, row in rows.items()},
                diagnosis.unschedulable_plugins,
                diagnosis.pending_plugins,
                diagnosis.post_filter,
            )
        return outcome.status, outcome.nomination, found

    def answer(self, pod: Pod) -> tuple[object, ...]:
        decided = self.decide(pod)
        answer, preemption = self.evaluator.preempt(pod)
        victims = None
        if preemption is not None:
            victims = preemption.status, preemption.nominated_node, preemption.victims
        return decided, answer, victims

    def woken(self, node: Node) -> list[str]:
        """The pods that a new node would bring back, as the queue finds them."""
        woken, judged = list[str](), dict[EquallyRejected, QueueingStrategy]()
        for queued in self.queue.concerned_by(NODE_ADD, None, node).pods:
            equality = queued.index_entry.equality
            worth = (
                self.hints.strategy_for(queued, NODE_ADD, None, node)
                if equality is None
                else judged.get(equality)
            )
            if (
                worth is None
                or equality is None
                or not self.hints.signatures_hold(equality.plugin_keys, queued)
            ):
                worth = self.hints.strategy_for(queued, NODE_ADD, None, node)
            if equality is not None:
                judged[equality] = worth
            if worth is not QueueingStrategy.SKIP:
                woken.append(queued.pod.metadata.name)
        return woken


def template(draw: st.DataObject) -> dict[str, Any]:
    given: dict[str, Any] = {"cpu": draw.draw(st.sampled_from(["1", "2"]))}
    given["labels"] = draw.draw(st.sampled_from([{}, {"app": "a"}, {"app": "b"}]))
    given["metadata"] = {"annotations": draw.draw(st.sampled_from([{}, {"pin": "x"}]))}
    given["tolerations"] = draw.draw(st.sampled_from([[], [{"key": "k", "operator": "Exists"}]]))
    given["priority"] = draw.draw(st.sampled_from([0, 0, 10]))
    return given


def node_of(draw: st.DataObject, name: str) -> Node:
    labels = draw.draw(st.sampled_from([{}, {"disk": "ssd"}]))
    return make_node(name, cpu=draw.draw(st.sampled_from(["2", "4"])), labels=labels)


@settings(max_examples=150, deadline=None)
@given(drawn=rules(), data=st.data())
def test_with_statements_and_without_all_is_decided_alike(drawn: list[Rule], data: st.DataObject) -> None:
    worlds = World(drawn, with_statements=True), World(drawn, with_statements=False)
    nodes = [f"n{number}" for number in range(data.draw(st.integers(1, 4)))]
    templates = [template(data) for _ in range(2)]
    placed: list[PodInfo] = []
    for name in nodes:
        node = node_of(data, name)
        for world in worlds:
            world.evaluator.add(node)
    for step in range(data.draw(st.integers(4, 12))):
        change(worlds, data, nodes, placed, templates, step)
        pod = make_pod(f"p{step}", uid=f"p{step}", **data.draw(st.sampled_from(templates)))
        if data.draw(st.integers(0, 4)) == 0:  # a node is nominated for the pod itself
            own = data.draw(st.sampled_from(nodes))
            for world in worlds:
                world.evaluator.nominator.nominate(PodInfo(pod), own)
        first, second = (world.answer(pod) for world in worlds)
        assert first == second
        equals = [
            make_pod(f"e{step}-{number}", **data.draw(st.sampled_from(templates))) for number in range(4)
        ]
        for equal in equals:
            ends = [world.attempt(equal) for world in worlds]
            assert ends[0] == ends[1]
        for world in worlds:
            queued = QueuedPod(PodInfo(pod), timestamp_ns=0)
            queued.unschedulable_plugins = {rule.name for rule in drawn}
            world.queue.add(queued)
        new = make_node(data.draw(st.sampled_from(["x", "y", "z"])))
        assert worlds[0].woken(new) == worlds[1].woken(new)


def change(
    worlds: Sequence[World],
    data: st.DataObject,
    nodes: list[str],
    placed: list[PodInfo],
    templates: list[dict[str, Any]],
    step: int,
) -> None:
    what = data.draw(
        st.sampled_from(
            ["nothing", "place", "remove", "node", "passing", "gone", "version", "memory", "nominate", "swap"]
        )
    )
    name = data.draw(st.sampled_from(nodes))
    if what == "place":
        info = PodInfo(make_pod(f"placed-{step}", node=name, **data.draw(st.sampled_from(templates))))
        placed.append(info)
        for world in worlds:
            world.evaluator.add(info.pod)
    elif what == "remove" and placed:
        gone = placed.pop()
        for world in worlds:
            world.evaluator.remove(gone.pod)
    elif what == "node":
        node = node_of(data, name)
        for world in worlds:
            world.evaluator.add(node)
    elif what == "passing":  # a node comes and goes between two cycles
        for world in worlds:
            world.evaluator.add(make_node(f"passing-{step}"))
            world.cluster.remove_node(f"passing-{step}")
    elif what == "gone" and len(nodes) > 1:
        nodes.remove(name)
        for world in worlds:
            world.cluster.remove_node(name)
    elif what == "swap":  # another node in the row of one that went
        nodes[nodes.index(name)] = f"n{step + 10}"
        node = node_of(data, f"n{step + 10}")
        for world in worlds:
            world.cluster.remove_node(name)
            world.evaluator.add(node)
    elif what == "version":
        for world in worlds:
            world.version.version += 1
    elif what == "memory":  # what no statement speaks of
        for world in worlds:
            world.memory.version += 1
    elif what == "nominate":
        nominated = PodInfo(make_pod(f"nominated-{step}", **data.draw(st.sampled_from(templates))))
        for world in worlds:
            world.evaluator.nominator.nominate(nominated, name)


def test_chance_is_not_all_the_same() -> None:
    """Otherwise the worlds would agree about nothing."""
    assert np.std([chance("judge", number) for number in range(100)]) > 20
