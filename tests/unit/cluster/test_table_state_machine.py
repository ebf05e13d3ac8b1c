"""Whatever happened to a cluster, its table is what one built afresh from the survivors would be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kuberth.api.core import Node
from kuberth.api.selectors import EVERYTHING, NOTHING, parse_selector
from kuberth.cluster.node_order import zone_of
from kuberth.cluster.pod_info import PodInfo, PodMatcher
from kuberth.cluster.table import ClusterTable
from kuberth.errors import KuberthError
from kuberth.testing import make_node, make_pod
from tests.unit.cluster.recount import (
    IMAGES,
    LABEL_KEYS,
    Picture,
    carried_by_name,
    expected_carried,
    expected_picture,
    expected_tally,
    gaps_are_empty,
    picture_of,
    summed_by_domain,
    tally_by_domain,
    tally_by_name,
)

NODES = st.sampled_from(["n1", "n2", "n3", "n4", "n5"])
UIDS = st.sampled_from([f"u{number}" for number in range(7)])

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
TEAM = {"topologyKey": "disk", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "a"}}}

POD_KINDS: Sequence[dict[str, Any]] = (
    {},
    {"labels": {"app": "web"}, "cpu": "100m", "memory": "1Gi", "priority": 10},
    {"labels": {"app": "db"}, "cpu": "2", "namespace": "other", "priority": -10},
    {"requests": {"example.com/gpu": "2", "ephemeral-storage": "1Gi"}, "labels": {"app": "web", "tier": "x"}},
    {"requests": {"example.com/fpga": "1"}},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}], "namespace": "other"},
    {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "disk-1"}}]},
    {"labels": {"app": "web"}, "affinity": {"podAntiAffinity": {REQUIRED: [WEB, WEB]}}},
    {"labels": {"app": "db"}, "affinity": {"podAffinity": {REQUIRED: [TEAM]}}},
    {
        "affinity": {
            "podAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": WEB}]},
            "podAntiAffinity": {PREFERRED: [{"weight": 7, "podAffinityTerm": TEAM}]},
        }
    },
    {"labels": {"app": "web"}, "metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}},
)
PORT_KINDS: Sequence[list[dict[str, Any]]] = (
    [],
    [{"containerPort": 80, "hostPort": 80}],
    [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}, {"containerPort": 443, "hostPort": 443}],
    [{"containerPort": 80, "hostPort": 80, "protocol": "UDP"}],
)
NODE_LABELS = st.fixed_dictionaries(
    {},
    optional={
        "zone": st.sampled_from("abc"),
        "disk": st.sampled_from(["ssd", "hdd"]),
        "topology.kubernetes.io/zone": st.sampled_from("xy"),
        "topology.kubernetes.io/region": st.sampled_from("r"),
    },
)
TAINTS = st.lists(
    st.sampled_from(
        [
            {"key": "a", "effect": "NoSchedule"},
            {"key": "a", "effect": "NoSchedule", "timeAdded": "2024-01-01T00:00:00Z"},
            {"key": "b", "value": "x", "effect": "NoExecute"},
        ]
    ),
    max_size=2,
)
ALLOCATABLE = st.fixed_dictionaries(
    {"cpu": st.sampled_from(["1", "2500m"]), "pods": st.sampled_from(["0", "110"])},
    optional={
        "memory": st.just("4Gi"),
        "ephemeral-storage": st.just("10Gi"),
        "example.com/gpu": st.just("8"),
        "hugepages-2Mi": st.just("20Mi"),
    },
)
NODE_IMAGES = st.lists(
    st.sampled_from([{"names": ["busybox"], "sizeBytes": 5}, {"names": ["nginx", "web"], "sizeBytes": 7}]),
    max_size=2,
    unique_by=str,
)
MATCHERS: Sequence[PodMatcher] = (
    PodMatcher(frozenset({"default"}), NOTHING, EVERYTHING),
    PodMatcher(frozenset({"default"}), NOTHING, parse_selector("app=web")),
    PodMatcher(frozenset({"default", "other"}), NOTHING, parse_selector("app in (web,db)")),
    PodMatcher(frozenset({"default", "other"}), NOTHING, parse_selector("!tier")),
    PodMatcher(frozenset(), parse_selector("team=a"), parse_selector("app")),
    PodMatcher(frozenset(), EVERYTHING, EVERYTHING),
)


class Totals:
    """An observer that counts."""

    def __init__(self) -> None:
        self.placed: Counter[str] = Counter()
        self.cpu = 0

    def pod_placed(self, info: PodInfo) -> None:
        self.placed[info.uid] += 1
        self.cpu += info.request.milli_cpu

    def pod_removed(self, info: PodInfo) -> None:
        self.placed[info.uid] -= 1
        self.cpu -= info.request.milli_cpu


def make_info(uid: str, kind: int, ports: int, node: str) -> PodInfo:
    containers = [{"name": "main", "ports": PORT_KINDS[ports]}] if ports else None
    settings = dict(POD_KINDS[kind])
    if containers is not None and "cpu" not in settings and "requests" not in settings:
        settings["containers"] = containers
    return PodInfo(make_pod(uid, uid=uid, node=node, **settings))


KINDS = st.integers(0, len(POD_KINDS) - 1)
PORT_CHOICE = st.integers(0, len(PORT_KINDS) - 1)


class TableMachine(RuleBasedStateMachine):
    """A table beside two plain dicts: the nodes and the pods."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ClusterTable()
        self.early, self.late = Totals(), Totals()
        self.table.observe(self.early)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, PodInfo] = {}
        self.assumed: set[str] = set()
        self.namespaces: dict[str, dict[str, str]] = {}
        self.asked: set[tuple[int, bool]] = set()
        self.before: Picture = {}
        self.generation = 0

    @initialize(fillers=st.sampled_from([0, 0, 0, 62, 64]))
    def fill(self, fillers: int) -> None:
        """Sometimes the first capacity is nearly used up, so that the next nodes make the table grow."""
        for number in range(fillers):
            self._set(make_node(f"filler-{number}", labels={"zone": "abc"[number % 3]}))

    # Nodes

    @rule(
        name=NODES,
        labels=NODE_LABELS,
        taints=TAINTS,
        allocatable=ALLOCATABLE,
        images=NODE_IMAGES,
        unschedulable=st.booleans(),
        features=st.sampled_from([[], ["one"], ["two", "one"]]),
    )
    def set_node(
        self,
        name: str,
        *,
        labels: dict[str, str],
        taints: list[dict[str, str]],
        allocatable: dict[str, str],
        images: list[dict[str, Any]],
        unschedulable: bool,
        features: list[str],
    ) -> None:
        self._set(
            make_node(
                name,
                labels=labels,
                taints=taints,
                allocatable=allocatable,
                unschedulable=unschedulable,
                images=images,
                declaredFeatures=features,
            )
        )

    def _set(self, node: Node) -> None:
        name = node.metadata.name
        row = self.table.set_node(node)
        if name in self.before:
            assert self.table.names.index(name) == row, "a row is stable while its node lives"
        self.nodes[name] = node

    @rule(name=NODES)
    def remove_node(self, name: str) -> None:
        self.table.remove_node(name)
        self.nodes.pop(name, None)

    # Pods

    @rule(uid=UIDS, kind=KINDS, ports=PORT_CHOICE, node=NODES)
    def assume(self, uid: str, *, kind: int, ports: int, node: str) -> None:
        info = make_info(uid, kind, ports, node)
        if uid in self.pods:
            with pytest.raises(KuberthError, match="cannot be assumed"):
                self.table.assume_pod(info)
            return
        self.table.assume_pod(info)
        self.pods[uid] = info
        self.assumed.add(uid)

    @rule(uid=UIDS, kind=KINDS, ports=PORT_CHOICE, node=NODES)
    def add(self, uid: str, *, kind: int, ports: int, node: str) -> None:
        """New, confirmed in another version, or moved to another node."""
        self._add(make_info(uid, kind, ports, node))

    @precondition(lambda self: self.assumed)
    @rule(data=st.data(), node=st.none() | NODES)
    def confirm(self, data: st.DataObject, node: str | None) -> None:
        """As it was assumed, or on another node than thought."""
        info = self.pods[data.draw(st.sampled_from(sorted(self.assumed)))]
        self._add(info.placed_on(info.node_name if node is None else node))

    @precondition(lambda self: self.pods)
    @rule(
        data=st.data(), kind=st.none() | KINDS, node=st.none() | NODES, label=st.sampled_from(["", "a", "b"])
    )
    def renew(self, data: st.DataObject, kind: int | None, node: str | None, label: str) -> None:
        """A new version, of which perhaps nothing counts; what the table does not take over is added."""
        last = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
        pod = last.pod if kind is None else make_info(last.uid, kind, 0, last.node_name).pod
        replace = msgspec.structs.replace
        pod = replace(
            pod,
            metadata=replace(
                pod.metadata,
                resource_version=f"{last.pod.metadata.resource_version}1",
                labels={**pod.metadata.labels, "app": label} if label else pod.metadata.labels,
            ),
            spec=replace(pod.spec, node_name=last.node_name if node is None else node),
            status=replace(pod.status, phase="Running"),
        )
        info = PodInfo(pod)
        if not self.table.renew_pod(pod):
            self._add(info)
            return
        assert all(
            getattr(info, slot) == getattr(last, slot)
            for slot in PodInfo.__slots__
            if slot not in ("pod", "pod_class")
        )
        placed = self.table.placed(info.uid)
        assert placed is not None
        assert placed.pod is pod
        row = self.table.row_of(info.node_name)
        assert row is None or placed in self.table.pods_at(row)
        assert row is None or self.table.row_generation[row] == self.table.generation
        self.pods[info.uid] = placed
        self.assumed.discard(info.uid)

    def _add(self, info: PodInfo) -> None:
        self.table.add_pod(info)
        self.pods[info.uid] = info
        self.assumed.discard(info.uid)

    @rule(uid=UIDS)
    def forget(self, uid: str) -> None:
        was_assumed = uid in self.assumed
        assert self.table.forget_pod(uid) is was_assumed
        if was_assumed:
            self.assumed.remove(uid)
            del self.pods[uid]

    @rule(uid=UIDS)
    def remove(self, uid: str) -> None:
        self.table.remove_pod(uid)
        self.pods.pop(uid, None)
        self.assumed.discard(uid)

    # Questions

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), fails=st.booleans())
    def what_if(self, data: st.DataObject, fails: bool) -> None:
        """Pods leave and come on several rows; all is as before afterwards, whatever happens inside."""
        pods = dict(self.pods)
        try:
            with self.table.what_if() as question:
                for step in range(data.draw(st.integers(1, 4))):
                    node = data.draw(st.sampled_from(sorted(self.nodes)))
                    row = self.table.row_of(node)
                    assert row is not None
                    there = sorted(uid for uid, info in pods.items() if info.node_name == node)
                    leaving = data.draw(st.sampled_from([None, *there]))
                    if leaving is None:
                        guest = make_info(f"guest-{step}", data.draw(KINDS), data.draw(PORT_CHOICE), node)
                        question.add_pod(guest, row)
                        pods[guest.uid] = guest
                    else:
                        question.remove_pod(pods.pop(leaving), row)
                self._check(expected_picture(self.nodes, pods.values()))
                if fails:
                    raise LookupError("on the way")
        except LookupError:
            assert fails

    @rule(matcher=st.integers(0, len(MATCHERS) - 1), with_terminating=st.booleans())
    def ask(self, matcher: int, with_terminating: bool) -> None:
        """From now on the term is counted."""
        self.asked.add((matcher, with_terminating))

    @rule(name=st.sampled_from(["default", "other"]), labels=st.sampled_from([None, {}, {"team": "a"}]))
    def set_namespace(self, name: str, labels: dict[str, str] | None) -> None:
        self.table.set_namespace(name, labels)
        self.namespaces[name] = labels or {}

    # What holds after every step

    @invariant()
    def the_table_is_what_the_survivors_make_it(self) -> None:
        picture = expected_picture(self.nodes, self.pods.values())
        self._check(picture)
        gaps_are_empty(self.table)
        assert self.table.node_count == len(self.nodes)
        assert self.table.placed_count == len(self.pods)
        assert self.table.assumed_count == len(self.assumed)
        assert {info.uid for info in self.table.assumed_pods()} == set(self.assumed)
        for uid, info in self.pods.items():
            assert self.table.placed(uid) is info
            assert self.table.is_assumed(uid) is (uid in self.assumed)
        self._check_changes(picture)
        self.before, self.generation = picture, self.table.generation

    def _check(self, picture: Picture) -> None:
        assert picture_of(self.table) == picture
        for index, with_terminating in self.asked:
            matcher = MATCHERS[index]
            tally = self.table.terms.tally(matcher, with_terminating=with_terminating)
            counted = picture if with_terminating else _without_terminating(picture)
            expected = expected_tally(counted, matcher, self.namespaces)
            assert tally_by_name(self.table, tally) == expected
            assert tally.counts.total == sum(expected.values())
            for key in LABEL_KEYS:
                assert tally_by_domain(self.table, tally, key) == summed_by_domain(picture, expected, key)
        assert carried_by_name(self.table) == expected_carried(picture)

    def _check_changes(self, picture: Picture) -> None:
        """Whatever differs from the last step is among the rows that changed since."""
        changed = {self.table.names[row] for row in self.table.changed_since(self.generation).tolist()}
        for name, of_node in picture.items():
            if self.before.get(name) != of_node:
                assert name in changed
            row = self.table.row_of(name)
            assert row is not None
            if name not in self.before or _own(self.before[name]) != _own(of_node):
                assert self.table.node_generation[row] > self.generation
        assert not len(self.table.changed_since(self.table.generation))

    @invariant()
    def observers_know_every_placement(self) -> None:
        assert +self.early.placed == Counter(list(self.pods))
        assert self.early.cpu == sum(info.request.milli_cpu for info in self.pods.values())

    @invariant()
    def zones_take_turns(self) -> None:
        order = self.table.order().tolist()
        assert sorted(self.table.names[row] for row in order) == sorted(self.nodes)
        seen: Counter[tuple[str, str]] = Counter()
        turns: list[tuple[int, int]] = []
        zones: list[tuple[str, str]] = []
        for row in order:
            zone = zone_of(self.table.node_at(row))
            if zone not in zones:
                zones.append(zone)
            turns.append((seen[zone], zones.index(zone)))
            seen[zone] += 1
        assert turns == sorted(turns)

    def teardown(self) -> None:
        """A table built from scratch, and one that everything is taken from."""
        scratch = ClusterTable()
        for info in self.pods.values():
            scratch.add_pod(info)
        for node in self.nodes.values():
            scratch.set_node(node)
        assert picture_of(scratch) == picture_of(self.table)
        assert carried_by_name(scratch) == carried_by_name(self.table)
        self.table.observe(self.late)
        assert self.late.placed == +self.early.placed
        for uid in list(self.pods):
            self.table.remove_pod(uid)
        for name in list(self.nodes):
            self.table.remove_node(name)
        assert not picture_of(self.table)
        gaps_are_empty(self.table)
        assert not self.table.claims
        assert not self.table.disks
        assert not self.table.device_claims
        assert not self.table.port_users("TCP", 80)
        assert not carried_by_name(self.table)
        assert not len(self.table.order())
        assert not +self.late.placed
        assert self.early.cpu == self.late.cpu == 0


def _without_terminating(picture: Picture) -> Picture:
    return {
        name: {
            **of_node,
            "pods": {
                uid: info for uid, info in of_node["pods"].items() if not info.pod.metadata.deletion_timestamp
            },
        }
        for name, of_node in picture.items()
    }


def _own(of_node: dict[str, Any]) -> dict[str, Any]:
    """What comes from the node itself."""
    return {
        key: of_node[key]
        for key in ("allocatable", "allowed", "unschedulable", "taints", "features", "labels", "images")
    }


OFFERED = {"example.com/gpu": "8", "example.com/fpga": "8"}

TestTable: Any = TableMachine.TestCase
TestTable.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def test_the_pictures_are_not_empty() -> None:
    """Every kind of pod and node leaves something in the picture that the machine compares."""
    pods = [make_info(f"u{kind}", kind, kind % len(PORT_KINDS), "n1") for kind in range(len(POD_KINDS))]
    image = {"names": [IMAGES[0]], "sizeBytes": 5}
    of_node = expected_picture({"n1": make_node("n1", images=[image], allocatable=OFFERED)}, pods)["n1"]
    for part in ("requested", "ports", "claims", "disks"):
        assert of_node[part]
    assert of_node["images"][IMAGES[0]] == 5
    assert set(of_node["requested"]) >= {"cpu", "memory", "example.com/gpu", "example.com/fpga"}
    assert len(expected_carried({"n1": of_node})) == 4
