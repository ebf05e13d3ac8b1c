"""With plans and without, the same nodes pass, for the same reasons, with the same scores.

Two worlds live through the same churn: one remembers what equal pods met, the other judges every pod as if it
were the first. Whatever they are asked, they answer alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kuberth.api.core import Node, Pod, Service, ServiceSpec
from kuberth.api.meta import ObjectMeta
from kuberth.api.scheduling import PodGroup
from kuberth.assembly.profiles import full_registry
from kuberth.cluster.node_order import NodeOrder
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import FeatureGates, KubeSchedulerConfiguration
from kuberth.config.loading import load
from kuberth.evaluation import Evaluator
from kuberth.framework import (
    CycleState,
    DependsOn,
    FilterPlugin,
    Inputs,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    ScorePlugin,
    StateKey,
    Status,
    Verdict,
)
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.plan import Places
from kuberth.framework.running.calls import FEW_NODES
from kuberth.framework.status import SKIP
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.scheduling.sampling import Evaluate, Sampler
from kuberth.testing import ReadRecorder, make_node, make_pod
from tests.unit.framework.harness import profile_config

ZONE, HOST, DISK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "disk"
APP = {"matchLabels": {"app": "a"}}


class _Few:
    """Ends a search early, in clusters as small as these."""

    diagnoses_all = False

    def __init__(self) -> None:
        self._sampler = Sampler()
        self.position = 0

    def choose(
        self, order: NodeOrder, _enough: int, judge: Evaluate, *, nodes: int
    ) -> tuple[Places, int] | Status:
        return self._sampler.choose(order, min(2, len(order)), judge, nodes=nodes)


class World:
    """One of the two."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration | None,
        plugins: Mapping[str, Any],
        gates: Mapping[str, bool],
        *,
        recorder: ReadRecorder | None = None,
    ) -> None:
        """With a recorder there are no plans, and what plugins read is held against what they state."""
        registry = full_registry(plugins)
        self.evaluator = Evaluator(
            config=config,
            registry=registry if recorder is None else recorder.registry(registry),
            feature_gates=FeatureGates(gates),
            with_plans=recorder is None,
        )
        self.cluster = self.evaluator.cluster
        self.cycle = SchedulingCycle(
            self.cluster,
            nominator=self.evaluator.nominator,
            metrics=self.evaluator.runner.metrics,
            sampling=_Few(),
        )

    def answer(self, pod: Pod) -> object:
        """Everything that can be said about all nodes."""
        if not self.cluster.node_count:
            return None
        return self.evaluator.evaluate(pod)

    def search(self, pod: Pod) -> tuple[object, str]:
        """What a cycle finds among some nodes, and the best of them."""
        state, diagnosis, runner = CycleState(PodInfo(pod)), Diagnosis(), self.evaluator.runner
        found = self.cycle.search(state, pod, runner, diagnosis)
        if isinstance(found, Status):
            return found, ""
        nodes, evaluated = found
        if not len(nodes):
            statuses = {
                name: diagnosis.status_of(name, row=self.cluster.row_of(name)) for name in self._names()
            }
            return (
                statuses,
                diagnosis.message(99),
                diagnosis.unschedulable_plugins,
                diagnosis.pending_plugins,
            ), ""
        scores = self.cycle.rank(state, pod, runner, nodes)
        if isinstance(scores, Status):
            return scores, ""
        best = nodes.names()[int(np.argmax(scores.totals))]
        by_plugin = {name: given.tolist() for name, given in scores.by_plugin.items()}
        return (nodes.names(), evaluated, by_plugin, scores.totals.tolist()), best

    def _names(self) -> list[str]:
        return self.cluster.all_nodes().names()


class Twins:
    """Both of them, and what there is to change."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration | None = None,
        plugins: Mapping[str, Any] | None = None,
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        self.recorder = ReadRecorder()
        self.with_plans = World(config, plugins or {}, gates or {})
        self.without = World(config, plugins or {}, gates or {}, recorder=self.recorder)
        self.nodes: list[str] = []
        self.placed: list[PodInfo] = []
        self.nominated: list[PodInfo] = []
        self.count = 0

    def both(self, change: Callable[[World], object]) -> None:
        change(self.with_plans)
        change(self.without)

    def set_node(self, node: Node) -> None:
        self.both(lambda world: world.evaluator.add(node))
        if node.metadata.name not in self.nodes:
            self.nodes.append(node.metadata.name)

    def remove_node(self, name: str) -> None:
        self.nodes.remove(name)
        self.both(lambda world: world.cluster.remove_node(name))

    def place(self, pod: Pod) -> None:
        info = PodInfo(pod)
        self.placed.append(info)
        self.both(lambda world: world.cluster.add_pod(info))

    def remove(self, info: PodInfo) -> None:
        self.placed.remove(info)
        self.both(lambda world: world.cluster.remove_pod(info.uid))

    def nominate(self, info: PodInfo, node: str) -> None:
        self.nominated.append(info)
        self.both(lambda world: world.evaluator.nominator.nominate(info, node))

    def set_service(self, selector: dict[str, str]) -> None:
        metadata = ObjectMeta(name="s", namespace="default")
        service = Service(metadata=metadata, spec=ServiceSpec(selector=selector))
        self.both(lambda world: world.evaluator.add(service))

    def ask(self, pod: Pod) -> str:
        planned, best = self.with_plans.search(pod)
        assert (planned, best) == self.without.search(pod)
        assert self.with_plans.answer(pod) == self.without.answer(pod)
        return best

    def name(self) -> str:
        self.count += 1
        return f"pod-{self.count}"


def _term(key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": APP}


def _required(kind: str, key: str) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [_term(key)]}}}


def _preferred(kind: str, key: str) -> dict[str, Any]:
    weighted = {"weight": 3, "podAffinityTerm": _term(key)}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}


def _spread(key: str, when: str) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": APP}
    return {"topologySpreadConstraints": [constraint | {"nodeTaintsPolicy": "Honor"}]}


def _on_disk(disk: str) -> dict[str, Any]:
    ssd = {"key": DISK, "operator": "In", "values": [disk]}
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [ssd]}]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "preference": {"matchExpressions": [ssd | {"values": ["hdd"]}]}}
                ],
            }
        }
    }


TEMPLATES: list[dict[str, Any]] = [
    {"cpu": "1", "memory": "1Gi"},
    {},
    {"cpu": "2", "labels": {"app": "a"}},
    {"cpu": "100", "labels": {"app": "a"}},
    {"cpu": "1", "labels": {"app": "a"}, **_required("podAntiAffinity", HOST)},
    {"cpu": "1", "labels": {"app": "a"}, **_required("podAffinity", ZONE)},
    {"cpu": "1", "labels": {"app": "b"}, **_preferred("podAntiAffinity", HOST)},
    {"cpu": "1", "labels": {"app": "a"}, **_preferred("podAffinity", ZONE)},
    {"cpu": "1", "labels": {"app": "a"}, **_spread(ZONE, "DoNotSchedule")},
    {"cpu": "1", "labels": {"app": "a"}, **_spread(HOST, "ScheduleAnyway")},
    {"cpu": "1", **_on_disk("ssd")},
    {"cpu": "1", "nodeSelector": {DISK: "hdd"}},
    {"cpu": "1", "tolerations": [{"key": "k", "operator": "Exists"}]},
    {"cpu": "1", "priority": 10},
    {"cpu": "1", "containers": [{"name": "c", "image": "i", "ports": [{"hostPort": 80}]}]},
    {"requests": {"example.com/gpu": "1"}, "cpu": "1"},
]


def _pod(name: str, template: dict[str, Any], *, node: str = "") -> Pod:
    return make_pod(name, node=node, **template)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    labels = {HOST: name}
    for key, values in ((ZONE, ("z1", "z2", "")), (DISK, ("ssd", "hdd", ""))):
        if value := draw(st.sampled_from(values)):
            labels[key] = value
    taints = draw(
        st.sampled_from(
            [[], [], [{"key": "k", "effect": "NoSchedule"}], [{"key": "s", "effect": "PreferNoSchedule"}]]
        )
    )
    gpu = draw(st.sampled_from([{}, {}, {"example.com/gpu": "2"}]))
    return make_node(
        name,
        cpu=draw(st.sampled_from(["2", "4", "0"])),
        memory="8Gi",
        labels=labels,
        taints=taints,
        unschedulable=draw(st.integers(0, 5)) == 0,
        allocatable=gpu,
        images=draw(st.sampled_from([[], [{"names": ["i:latest"], "sizeBytes": 500_000_000}]])),
    )


def live(
    twins: Twins, data: st.DataObject, *, steps: int, templates: list[dict[str, Any]] = TEMPLATES
) -> None:
    """Random churn with a question after every change."""
    for number in range(data.draw(st.integers(3, 7))):
        twins.set_node(data.draw(nodes(f"n{number}")))
    for _ in range(steps):
        _change(twins, data)
        for template in data.draw(st.lists(st.sampled_from(templates), min_size=1, max_size=2)):
            best = twins.ask(_pod(twins.name(), template))
            if best and data.draw(st.booleans()):
                twins.place(_pod(twins.name(), template, node=best))
    twins.recorder.check()


def _change(twins: Twins, data: st.DataObject) -> None:
    what = data.draw(
        st.sampled_from(
            ["node", "add", "gone", "pod", "left", "renew", "nominate", "kept", "namespace", "if"]
        )
    )
    if what == "node" and twins.nodes:
        twins.set_node(data.draw(nodes(data.draw(st.sampled_from(twins.nodes)))))
    elif what == "add":
        twins.count += 1
        twins.set_node(data.draw(nodes(f"new-{twins.count}")))
    elif what == "gone" and len(twins.nodes) > 1:
        twins.remove_node(data.draw(st.sampled_from(twins.nodes)))
    elif what == "pod" and twins.nodes:
        node = data.draw(st.sampled_from(twins.nodes))
        twins.place(_pod(twins.name(), data.draw(st.sampled_from(TEMPLATES)), node=node))
    elif what == "left" and twins.placed:
        twins.remove(data.draw(st.sampled_from(twins.placed)))
    elif what == "renew" and twins.placed:
        old = data.draw(st.sampled_from(twins.placed))
        mood = {"mood": data.draw(st.sampled_from(["good", "bad"]))}
        newer = replace(old.pod, metadata=replace(old.pod.metadata, annotations=mood))
        twins.placed[twins.placed.index(old)] = PodInfo(newer)
        twins.both(lambda world: world.cluster.renew_pod(newer))
    elif what == "nominate" and twins.nodes:
        nominee = PodInfo(_pod(twins.name(), data.draw(st.sampled_from(TEMPLATES))))
        twins.nominate(nominee, data.draw(st.sampled_from([*twins.nodes, "nowhere"])))
    elif what == "kept" and twins.nominated:
        kept = twins.nominated.pop()
        twins.both(lambda world: world.evaluator.nominator.withdraw(kept.pod))
    elif what == "namespace":
        labels = data.draw(st.sampled_from([{"team": "x"}, {}, None]))
        twins.both(lambda world: world.cluster.set_namespace("default", labels))
    elif what == "if" and twins.nodes:
        guest = PodInfo(_pod(twins.name(), data.draw(st.sampled_from(TEMPLATES))))
        row = twins.with_plans.cluster.row_of(data.draw(st.sampled_from(twins.nodes)))
        assert row is not None
        asked = _pod(twins.name(), data.draw(st.sampled_from(TEMPLATES)))
        answers = []
        for world in (twins.with_plans, twins.without):
            with world.cluster.what_if() as what_if:
                what_if.add_pod(guest, row)
                answers.append(world.answer(asked))
        assert answers[0] == answers[1]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_default_profile_decides_alike_with_plans_and_without(data: st.DataObject) -> None:
    twins = Twins()
    if data.draw(st.booleans()):
        twins.set_service({"app": "a"})
    live(twins, data, steps=12)


HARD_DEFAULTS = load(
    """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}
"""
)
SELECTORS: list[dict[str, Any]] = [
    {"matchLabels": {"app": "a"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["b", "c"]}]},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["c"]}]},
    {"matchExpressions": [{"key": "own", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "own", "operator": "DoesNotExist"}]},
    {"matchLabels": {"own": "1", "app": "b"}},
]


@st.composite
def selecting(draw: st.DrawFn) -> dict[str, Any]:
    """A pod that differs from others in its labels, or in whom it selects by theirs."""
    labels: dict[str, str] = {}
    for key, values in (("app", ("a", "b", "c", "d", "")), ("own", ("1", "2", ""))):
        if value := draw(st.sampled_from(values)):
            labels[key] = value
    template: dict[str, Any] = {"cpu": draw(st.sampled_from(["1", "100"])), "labels": labels}
    selector, key = draw(st.sampled_from(SELECTORS)), draw(st.sampled_from([ZONE, HOST]))
    kind = draw(st.sampled_from(["podAffinity", "podAntiAffinity"]))
    term = {"topologyKey": key, "labelSelector": selector}
    match draw(st.sampled_from(["", "", "", "required", "preferred", "spread", "same"])):
        case "required":
            template["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        case "preferred":
            weighted = {"weight": 3, "podAffinityTerm": term}
            template["affinity"] = {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}
        case "spread":
            template |= _spread(key, draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])))
            template["topologySpreadConstraints"][0] |= {"labelSelector": selector}
        case "same":
            template |= _spread(key, "DoNotSchedule")
            template["topologySpreadConstraints"][0] |= {"matchLabelKeys": ["app"], "labelSelector": {}}
    return template


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_pods_that_differ_only_in_labels_that_no_selector_names_are_equal_and_decide_alike(
    data: st.DataObject,
) -> None:
    twins = Twins(HARD_DEFAULTS if data.draw(st.booleans()) else None)
    for number in range(data.draw(st.integers(3, 6))):
        twins.set_node(data.draw(nodes(f"n{number}")))
    for _ in range(14):
        match data.draw(st.sampled_from(["service", "nominate", "place", "left", "if", "", ""])):
            case "service":
                twins.set_service(data.draw(st.sampled_from([{"app": "a"}, {"app": "d"}, {"own": "2"}])))
            case "nominate":
                nominee = PodInfo(_pod(twins.name(), data.draw(selecting()) | {"priority": 10}))
                twins.nominate(nominee, data.draw(st.sampled_from(twins.nodes)))
            case "place":
                node = data.draw(st.sampled_from(twins.nodes))
                twins.place(_pod(twins.name(), data.draw(selecting()), node=node))
            case "left" if twins.placed:
                twins.remove(data.draw(st.sampled_from(twins.placed)))
        for _ in range(2):
            twins.ask(_pod(twins.name(), data.draw(selecting())))
    twins.recorder.check()


def _far_from(app: str) -> dict[str, Any]:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _of_a_stateful_set(number: int, *, app: str = "db") -> Pod:
    """With a term of its own: without one, upstream does not ask about the terms of nominated pods."""
    name = f"{app}-{number}"
    labels = {"app": app, "statefulset.kubernetes.io/pod-name": name}
    return make_pod(name, cpu="1", labels=labels, affinity=_far_from("nothing"))


def test_pods_of_a_stateful_set_share_a_plan() -> None:
    twins = Twins()
    twins.set_node(make_node("n1", labels={HOST: "n1"}))
    for number in range(4):
        twins.ask(_of_a_stateful_set(number))
    plans = twins.with_plans.evaluator.runner.plans
    assert plans is not None
    assert len(plans) == 1


@pytest.mark.parametrize("asked_first", [True, False])
@pytest.mark.parametrize("known", ["nominated", "placed", "service"])
def test_a_selector_that_comes_later_tells_pods_apart_that_shared_a_plan(
    known: str, asked_first: bool
) -> None:
    twins = Twins()
    twins.set_node(make_node("n1", labels={HOST: "n1", ZONE: "z"}))
    pods = [_of_a_stateful_set(1, app="web"), _of_a_stateful_set(0)]
    for _ in range(2):
        assert [twins.ask(pod) for pod in pods] == ["n1", "n1"]
    plans = twins.with_plans.evaluator.runner.plans
    assert plans is not None
    assert len(plans) == 1
    infos = [PodInfo(pod) for pod in pods]
    assert plans.signature(infos[0]) == plans.signature(infos[1])
    if known == "nominated":
        twins.nominate(PodInfo(make_pod("far", priority=10, affinity=_far_from("web"))), "n1")
    elif known == "placed":
        twins.place(make_pod("far", node="n1", affinity=_far_from("web")))
    else:
        twins.set_service({"app": "web"})
    if asked_first:
        assert twins.ask(pods[0]) == ("n1" if known == "service" else "")
    assert plans.signature(infos[0]) != plans.signature(infos[1])
    assert twins.ask(pods[1]) == "n1"


GROUP_GATES = {"GenericWorkload": True, "GangScheduling": True, "DRAWorkloadResourceClaims": True}
CLAIM = {"name": "c", "resourceClaimName": "missing"}
OF_GROUPS: list[dict[str, Any]] = [
    {"cpu": "1"},
    {"cpu": "1", "schedulingGroup": {"podGroupName": "missing"}},
    {"cpu": "1", "schedulingGroup": {"podGroupName": "there"}},
    {"cpu": "1", "resourceClaims": [CLAIM]},
    {"cpu": "1", "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]},
    {"cpu": "1", "volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "disk"}}]},
]


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_pods_of_groups_and_with_claims_differ_from_plain_ones(data: st.DataObject) -> None:
    twins = Twins(gates=GROUP_GATES)
    group = PodGroup(metadata=ObjectMeta(name="there", namespace="default"))
    twins.both(lambda world: world.evaluator.add(group))
    live(twins, data, steps=10, templates=OF_GROUPS)


# Custom plugins: per node and over the table, stating what they depend on and not


_SEEN: StateKey[int] = StateKey("seen")


class PodLimit(PreFilterPlugin, FilterPlugin, ScorePlugin):
    """Per node, states everything; words that differ from node to node."""

    name = "PodLimit"
    inputs = Inputs(
        {"metadata.labels"}, pre_filter=DependsOn.POD, filter=DependsOn.NODE, score=DependsOn.NODE
    )

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: Nodes) -> PreFilterResult | Status | None:
        if "app" not in pod.metadata.labels:
            return SKIP
        if pod.metadata.labels["app"] == "b":
            return PreFilterResult(frozenset({"n0", "n1", "n2"}))
        state.write(_SEEN, len(pod.metadata.labels))
        return None

    def filter(self, state: CycleState, _pod: Pod, node: NodeRow) -> Status | None:
        if any(info.pod.metadata.annotations.get("mood") == "bad" for info in node.pods):
            return Status.unschedulable("bad company")
        if node.pod_count > 2 + (state.get(_SEEN) or 0):
            return Status.unschedulable(f"{node.pod_count} pods")
        return None

    def score(self, _state: CycleState, _pod: Pod, node: NodeRow) -> int:
        return min(node.pod_count, 100)

    def normalize_scores(self, _state: CycleState, _pod: Pod, scores: Any) -> Any:
        scores *= 7
        np.minimum(scores, 100, out=scores)
        return scores


class Label(FilterPlugin, ScorePlugin):
    """Over the table, states that it looks at the node's object."""

    name = "Label"
    inputs = Inputs({"spec.priority"}, filter=DependsOn.NODE_OBJECT, score=DependsOn.NODE_OBJECT)

    def filter_nodes(self, _state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        if pod.spec.priority is None:
            return None
        column = nodes.table.label_column(DISK)
        return Verdict.rejecting(nodes.take(column.ids) == 0, Status.pending("no disk"))

    def score_nodes(self, _state: CycleState, _pod: Pod, nodes: Nodes) -> Any:
        return (nodes.take(nodes.table.label_column(ZONE).ids) != 0).astype(np.int64) * 50


class Whole(PreFilterPlugin, FilterPlugin, ScorePlugin):
    """Looks at the whole cluster and says nothing about it."""

    name = "Whole"

    def pre_filter(self, _state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        return SKIP if pod.spec.tolerations else None

    def filter(self, _state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        busiest = int(node.table.pod_count[: node.table.slots].max())
        if node.pod_count == busiest > 1:
            return Status.unresolvable(f"{pod.metadata.name} shuns the busiest")
        return None

    def score(self, _state: CycleState, _pod: Pod, node: NodeRow) -> int:
        return min(node.table.placed_count * (node.row + 1), 100)


OWN: Mapping[str, type[Plugin]] = {plugin.name: plugin for plugin in (PodLimit, Label, Whole)}


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_plugins_of_ones_own_decide_alike_with_plans_and_without(data: st.DataObject) -> None:
    in_tree = ["NodeUnschedulable", "TaintToleration", "NodeResourcesFit", "NodePorts", "PodTopologySpread"]
    order = data.draw(st.permutations([*OWN, *in_tree]))
    profile = profile_config(["PrioritySort", "DefaultBinder", *order])
    live(Twins(KubeSchedulerConfiguration(profiles=(profile,)), OWN), data, steps=10)


# Many rows written to at once are judged and scored as one table


def test_where_much_changed_at_once_they_decide_alike() -> None:
    profile = profile_config(["PrioritySort", "DefaultBinder", *OWN, "NodeResourcesFit"])
    twins = Twins(KubeSchedulerConfiguration(profiles=(profile,)), OWN)
    many = [f"n{number}" for number in range(3 * FEW_NODES)]
    for name in many:
        twins.set_node(make_node(name, cpu="8", labels={ZONE: "z1"}))
    replica, urgent = {"cpu": "1", "labels": {"app": "a"}}, {"cpu": "1", "priority": 10}

    def place(template: dict[str, Any], *nodes: str) -> None:
        for name in nodes:
            twins.place(_pod(twins.name(), template, node=name))

    def mark(*nodes: str, cpu: str = "8") -> None:
        for name in nodes:
            twins.set_node(make_node(name, cpu=cpu, labels={ZONE: "z1", DISK: "ssd"}))

    def clear(*nodes: str) -> None:
        for info in [info for info in twins.placed if info.node_name in nodes]:
            twins.remove(info)

    some, others = many[: FEW_NODES + 1], many[FEW_NODES:]
    changes: list[Callable[[], None]] = [
        lambda: None,
        lambda: place(replica, *some, *some, *others),
        lambda: mark(*others),
        lambda: place(urgent, *some),
        lambda: clear(*some),
        lambda: mark(*others, cpu="0"),
    ]
    for change in changes:
        change()
        for template in (replica, urgent) * 3:
            twins.ask(_pod(twins.name(), template))
