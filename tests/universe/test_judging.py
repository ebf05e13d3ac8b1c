"""The judge itself: stories of a few entries, each of which breaks one rule."""

from __future__ import annotations

from typing import Any

import pytest

from tests.universe.judging import judge

Tree = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
BY = "scheduler-a-1"
BOOKS: Tree = {
    "nodes": 2,
    "placed pods": 0,
    "assumed pods": 0,
    "in flight": [],
    "waiting on Permit": 0,
    "bindings under way": 0,
    "queued": [],
    "nominations": [],
}


def node(name: str, *, cpu: str = "2", labels: Tree | None = None, **spec: Any) -> Tree:
    return {
        "metadata": {"name": name, "uid": name, "labels": {ZONE: "a", **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "pods": "10"}},
    }


def pod(name: str, *, on: str = "", cpu: str = "1", priority: int = 0, **spec: Any) -> Tree:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}, **spec.pop("container", {})}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": name[0]}}
    spec |= {"nodeName": on} if on else {}
    return {
        "metadata": metadata,
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [container],
            "priority": priority,
            **spec,
        },
    }


class Stories:
    """Builds a story entry by entry."""

    def __init__(self, *objects: Tree, replicas: int = 1) -> None:
        self.entries: list[Tree] = [{"entry": "begin", "at": 0.0, "replicas": replicas}]
        self.revision = 0
        for obj in objects:
            self.write(obj)

    def write(self, obj: Tree, *, by: str = "users", gone: bool = False, **more: Any) -> Stories:
        self.revision += 1
        name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
        kind = "Lease" if "holderIdentity" in obj["spec"] else "Pod" if namespace else "Node"
        key = f"{namespace}/{name}" if namespace else name
        stored = None if gone else obj
        entry = {"entry": "write", "kind": kind, "key": key, "object": stored, "revision": self.revision}
        return self.note(**entry, by=by, sent=float(self.revision), late=False, **more)

    def note(self, **entry: Any) -> Stories:
        self.entries.append({"at": float(self.revision), "by": BY, **entry})
        return self

    def attempt(self, name: str, on: str = "", *, seen: int | None = None) -> Stories:
        revision = self.revision if seen is None else seen
        kind = "decision" if on else "no node"
        fields = {"entry": kind, "node": on, "key": f"default/{name}", "uid": name}
        return self.note(**fields, seen={"Pod": revision, "Node": revision})

    def end(self, **books: Any) -> Stories:
        return self.note(entry="end", profiles=["default-scheduler"], leader={**BOOKS, **books})

    def broken(self) -> list[str]:
        return [each.rule for each in judge(self.entries)]


def marked(obj: Tree) -> Tree:
    return {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "1970-01-01T00:00:00Z"}}


TWO = (node("n1"), node("n2", labels={ZONE: "b", "disk": "ssd"}))
WEB = {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": ZONE}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPREAD = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **WEB}
PORT = {"ports": [{"hostPort": 80}]}
FULL = pod("w", on="n1", cpu="2")

PLACEMENTS: dict[str, tuple[list[Tree], Tree, str]] = {
    "resources": ([FULL], pod("p"), "resources"),
    "host ports": ([pod("w", on="n1", container=PORT)], pod("p", container=PORT), "host ports"),
    "node selector": ([], pod("p", nodeSelector={"disk": "ssd"}), "node selector"),
    "a required node affinity": (
        [],
        pod(
            "p",
            affinity={
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]
                    }
                }
            },
        ),
        "node selector",
    ),
    "pod affinity": (
        [pod("w", on="n2")],
        pod("p", affinity={"podAffinity": {REQUIRED: [WEB]}}),
        "pod affinity",
    ),
    "pod anti-affinity": (
        [pod("w", on="n1")],
        pod("p", affinity={"podAntiAffinity": {REQUIRED: [WEB]}}),
        "pod anti-affinity",
    ),
    "anti-affinity of another pod": (
        [pod("o", on="n1", affinity={"podAntiAffinity": {REQUIRED: [WEB]}})],
        pod("w"),
        "pod anti-affinity",
    ),
    "topology spread": (
        [pod("w", on="n1")],
        pod("w2", topologySpreadConstraints=[SPREAD]),
        "topology spread",
    ),
    "gates": ([], pod("p", schedulingGates=[{"name": "g"}]), "a gated pod is not placed"),
}


@pytest.mark.parametrize("case", PLACEMENTS)
def test_a_placement_that_breaks_a_rule(case: str) -> None:
    others, placed, rule = PLACEMENTS[case]
    assert Stories(*TWO, *others, placed).attempt(placed["metadata"]["name"], "n1").broken() == [rule]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"taints": [{"key": "k", "effect": "NoSchedule"}]}, id="taint"),
        pytest.param({"unschedulable": True}, id="cordoned"),
    ],
)
def test_a_placement_on_a_node_with_a_taint(spec: Tree) -> None:
    assert Stories(node("n1", **spec), pod("p")).attempt("p", "n1").broken() == ["taints"]
    tolerant = pod("p", tolerations=[{"operator": "Exists"}])
    assert not Stories(node("n1", **spec), tolerant).attempt("p", "n1").broken()


def test_what_was_not_delivered_is_not_held_against_a_decision() -> None:
    story = Stories(*TWO, pod("p"))
    story.write(FULL)
    assert not story.attempt("p", "n1", seen=3).broken()
    assert story.attempt("p", "n1").broken() == ["a pod is placed once", "resources"]


def test_what_the_same_process_placed_counts_until_it_gives_up() -> None:
    story = Stories(*TWO, pod("p", cpu="2"), pod("q", cpu="2")).attempt("p", "n1").attempt("q", "n1")
    assert story.broken() == ["resources"]
    story = Stories(*TWO, pod("p", cpu="2"), pod("q", cpu="2")).attempt("p", "n1")
    story.note(entry="undone", key="default/p", uid="p", node="n1")
    assert not story.attempt("q", "n1").broken()


def test_a_binding_elsewhere_than_decided_and_a_second_binding() -> None:
    story = Stories(*TWO, pod("p")).attempt("p", "n1").write(pod("p", on="n2"), by=BY)
    assert story.broken() == ["a pod is bound where it was placed"]
    story = Stories(*TWO, pod("p", on="n2")).write(pod("p", on="n1"), by=BY)
    assert "a pod is bound once" in story.broken()


def test_a_write_without_the_lease() -> None:
    lease: Tree = {"metadata": {"name": "lease", "namespace": "kube-system"}, "spec": {}}
    lease["spec"]["holderIdentity"] = "scheduler-b-1"
    story = Stories(*TWO, pod("p"), lease, replicas=2).attempt("p", "n1").write(pod("p", on="n1"), by=BY)
    assert story.broken() == ["only the leader writes"]


VICTIMS = {
    "a needed victim": (pod("w", on="n1", cpu="2"), pod("p", priority=1), []),
    "equal priority": (pod("w", on="n1", cpu="2"), pod("p"), ["no victim without need"]),
    "room without a victim": (pod("w", on="n1"), pod("p", priority=1), ["no victim without need"]),
    "no help": (pod("w", on="n1"), pod("p", cpu="4", priority=1), ["no victim without need"]),
}


@pytest.mark.parametrize("case", VICTIMS)
def test_victims(case: str) -> None:
    victim, preemptor, rules = VICTIMS[case]
    assert Stories(node("n1"), victim, preemptor).attempt("p").write(marked(victim), by=BY).broken() == rules


def test_a_victim_of_no_attempt() -> None:
    assert Stories(node("n1"), FULL).write(FULL, by=BY, gone=True).broken() == ["no victim without need"]


def test_a_pod_that_fits_and_is_not_bound() -> None:
    story = Stories(*TWO, pod("p")).end(queued=["default/p"])
    assert story.broken() == ["every pod that fits is bound"]
    assert not Stories(*TWO, pod("p", cpu="4")).end(queued=["default/p"]).broken()


def test_a_report_that_arrives_after_the_binding() -> None:
    rejected = {**pod("p", on="n1"), "status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}
    story = Stories(*TWO, pod("p")).attempt("p", "n1").write(pod("p", on="n1"), by=BY).write(rejected, by=BY)
    assert not story.broken()
    story.entries[-1]["sent"] = 3.5
    assert story.broken() == ["a binding comes after earlier reports"]


@pytest.mark.parametrize(
    "books",
    [
        {"queued": []},
        {"nodes": 3},
        {"placed pods": 1},
        {"assumed pods": 1},
        {"in flight": ["p"]},
        {"waiting on Permit": 1},
        {"bindings under way": 1},
        {"nominations": ["gone"]},
    ],
    ids=lambda books: next(iter(books)),
)
def test_books_that_do_not_match_the_cluster(books: Tree) -> None:
    story = Stories(*TWO, pod("p", cpu="4")).end(**{"queued": ["default/p"], **books})
    assert story.broken() == ["nothing is lost or left over"]


def test_a_scheduler_that_spins() -> None:
    assert Stories().note(entry="error", what="spins").broken() == ["the scheduler goes on"]
