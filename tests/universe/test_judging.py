"""The judge itself: stories of a few entries, each of which breaks one rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.universe.judging import judge

Tree = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
BY = "scheduler-a-1"
KINDS = (
    "CSINode",
    "License",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PodGroup",
    "ResourceClaim",
    "ResourceSlice",
    "StorageClass",
)
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

    def __init__(
        self, *objects: Tree, replicas: int = 1, extender: str = "", patient: bool = False, flush: float = 1e6
    ) -> None:
        begin = {"replicas": replicas, "extender": extender, "patient": patient, "flush_seconds": flush}
        self.entries: list[Tree] = [{"entry": "begin", "at": 0.0, **begin}]
        self.revision = 0
        for obj in objects:
            self.write(obj)

    def write(self, obj: Tree, *, by: str = "users", gone: bool = False, **more: Any) -> Stories:
        self.revision += 1
        name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
        kind = obj.get("kind") or ("Pod" if namespace else "Node")
        key = f"{namespace}/{name}" if namespace else name
        version = {"resourceVersion": str(self.revision)}
        stored = None if gone else {**obj, "metadata": {**obj["metadata"], **version}}
        entry = {"entry": "write", "kind": kind, "key": key, "object": stored, "revision": self.revision}
        return self.note(**entry, by=by, sent=float(self.revision), late=False, **more)

    def note(self, **entry: Any) -> Stories:
        self.entries.append({"at": float(self.revision), "by": BY, **entry})
        return self

    def attempt(
        self, name: str, on: str = "", *, seen: int | None = None, trial: bool = False, **more: Any
    ) -> Stories:
        revision = self.revision if seen is None else seen
        kind = "decision" if on else "no node"
        fields = {"entry": kind, "node": on, "key": f"default/{name}", "uid": name}
        fields |= {"version": self.version(name, revision), **more}
        return self.note(**fields, trial=trial, seen=dict.fromkeys(KINDS, revision))

    def version(self, name: str, revision: int) -> str:
        """Of a pod or node at a revision."""
        writes = [each for each in self.entries if each["entry"] == "write" and each["revision"] <= revision]
        objects = [each["object"] for each in writes if each["object"] is not None]
        found = [each["metadata"] for each in objects if each["metadata"]["name"] == name]
        return str(found[-1]["resourceVersion"]) if found else ""

    def books(self, **fields: Any) -> Stories:
        """What is kept, as it was delivered, but for `fields`."""
        kept: Tree = {
            "seen": dict.fromkeys(KINDS, self.revision),
            "leads": True,
            "profiles": ["default-scheduler"],
            "queues": {queue: [] for queue in ("active", "backoff", "unschedulable", "gated")},
            "in flight": [],
            "nodes": {name: self.version(name, self.revision) for name in ("n1", "n2")},
            "placed": {},
            "versions": {},
            "assumed": [],
            "nominations": {},
            "filed": [],
        }
        queues = {**kept["queues"], **fields.pop("queues", {})}
        return self.note(entry="books", **{**kept, "queues": queues, **fields})

    def queued(self, name: str, *why: str, **fields: Any) -> Tree:
        """A pod as it is in the queue."""
        version = self.version(name, self.revision)
        found = {"key": f"default/{name}", "uid": name, "version": version, "attempts": 1, "gate": ""}
        return {**found, "why": list(why), **fields}

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


def test_a_pod_that_changes_while_it_is_bound_counts_as_it_was() -> None:
    lonely = pod("o", affinity={"podAntiAffinity": {REQUIRED: [WEB]}})
    story = Stories(*TWO, pod("p"), lonely).attempt("p", "n1")
    relabelled = pod("p")
    relabelled["metadata"]["labels"] = {"app": "w"}
    assert not story.write(relabelled).attempt("o", "n1").broken()
    bound = pod("p", on="n1")
    bound["metadata"]["labels"] = {"app": "w"}
    story.entries.pop()
    assert story.write(bound, by=BY).attempt("o", "n1").broken() == ["pod anti-affinity"]


def test_a_binding_elsewhere_than_decided_and_a_second_binding() -> None:
    story = Stories(*TWO, pod("p")).attempt("p", "n1").write(pod("p", on="n2"), by=BY)
    assert story.broken() == ["a pod is bound where it was placed"]
    story = Stories(*TWO, pod("p", on="n2")).write(pod("p", on="n1"), by=BY)
    assert "a pod is bound once" in story.broken()


def test_a_write_without_the_lease() -> None:
    lease: Tree = {"kind": "Lease", "metadata": {"name": "lease", "namespace": "kube-system"}, "spec": {}}
    lease["spec"]["holderIdentity"] = "scheduler-b-1"
    story = Stories(*TWO, pod("p"), lease, replicas=2).attempt("p", "n1").write(pod("p", on="n1"), by=BY)
    assert story.broken() == ["only the leader writes"]


def test_a_write_by_a_leader_that_has_not_renewed() -> None:
    lease: Tree = {"kind": "Lease", "metadata": {"name": "lease", "namespace": "kube-system"}}
    lease["spec"] = {"holderIdentity": BY}
    story = Stories(*TWO, pod("p"), replicas=2).write(lease, by=BY).attempt("p", "n1")
    story.write(pod("p", on="n1"), by=BY)
    assert not story.broken()
    story.entries[-1]["sent"] = 14.0
    assert story.broken() == ["only a leader that renewed writes"]


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


@pytest.mark.parametrize(
    ("extender", "rules"),
    [
        pytest.param("ignorable", [], id="a cycle that waits for an extender"),
        pytest.param("", ["no victim without need"], id="no extender"),
    ],
)
def test_a_victim_of_a_pod_that_changed_in_its_cycle(extender: str, rules: list[str]) -> None:
    closed = node("n2", taints=[{"key": "k", "effect": "NoSchedule"}])
    preemptor = pod("p", priority=1)
    story = Stories(node("n1"), closed, FULL, preemptor, extender=extender)
    story.write(pod("p", priority=1, tolerations=[{"operator": "Exists"}])).attempt("p", version="4")
    assert story.write(marked(FULL), by=BY).broken() == rules


@pytest.mark.parametrize("rules", [[], ["no victim without need"]], ids=["being bound", "released"])
def test_a_pod_that_is_deleted_while_it_is_bound_keeps_its_place(rules: list[str]) -> None:
    story = Stories(node("n1"), pod("w", on="n1"), pod("o"), pod("p", priority=1)).attempt("o", "n1")
    story.write(pod("o"), gone=True)
    if rules:
        story.note(entry="undone", uid="o", key="default/o", node="n1")
    assert story.attempt("p").write(marked(pod("w", on="n1")), by=BY).broken() == rules


def test_a_pod_that_was_bound_and_deleted_counts_in_no_domain() -> None:
    """If it still counted, no domain would be empty, and the other pod would fit beside the victim."""
    closed = node("n2", labels={ZONE: "b"}, taints=[{"key": "k", "effect": "NoSchedule"}])
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
    }
    gone = pod("o", tolerations=[{"operator": "Exists"}])
    victim, preemptor = pod("w", on="n1"), pod("p", priority=1, topologySpreadConstraints=[constraint])
    story = Stories(node("n1"), closed, victim, gone, preemptor).attempt("o", "n2")
    story.write({**gone, "spec": {**gone["spec"], "nodeName": "n2"}}, by=BY).write(gone, gone=True)
    assert story.attempt("p").write(marked(victim), by=BY).broken() == []


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


def test_books_as_they_were_delivered() -> None:
    story = Stories(*TWO, pod("p", cpu="4"), pod("q", on="n1"))
    versions = {"q": story.version("q", 4)}
    queues = {"unschedulable": [story.queued("p", "NodeResourcesFit")]}
    assert not story.books(queues=queues, placed={"q": "n1"}, versions=versions).broken()


KEPT: dict[str, Tree] = {
    "forgotten": {"queues": {}},
    "twice": {"queues": {"active": [{}], "backoff": [{}]}},
    "not pending": {"queues": {"active": [{}, {"key": "default/o", "uid": "o"}]}},
    "another pod of this name": {"queues": {"active": [{"uid": "p0"}]}, "in flight": ["p"]},
    "an old version": {"queues": {"active": [{"version": "1"}]}},
    "queued and in flight": {"in flight": ["p"]},
    "queued and assumed": {"assumed": ["p"], "placed": {"p": "n1"}},
    "gated without gates": {"queues": {"gated": [{"gate": "SchedulingGates"}]}},
    "a node too many": {"nodes": {"n1": "1", "n2": "2", "n3": "3"}},
    "a node in an old version": {"nodes": {"n1": "0", "n2": "2"}},
    "a pod that is placed nowhere": {"placed": {"p": "n1"}},
    "a pod that is filed and does not wait": {"filed": ["p"]},
    "a nomination of a pod that is gone": {"nominations": {"o": "n1"}},
}


@pytest.mark.parametrize("case", KEPT)
def test_books_that_differ_from_what_was_delivered(case: str) -> None:
    story = Stories(*TWO, pod("p", cpu="4"))
    fields = {"queues": {"active": [{}]}, **KEPT[case]}
    fields["queues"] = {
        queue: [{**story.queued("p"), **each} for each in pods] for queue, pods in fields["queues"].items()
    }
    assert story.books(**fields).broken() == ["what is kept is what was delivered"]


@pytest.mark.parametrize(
    ("attempts", "kept", "rules"),
    [
        pytest.param(0, {}, ["what is kept is what was delivered"], id="lost"),
        pytest.param(0, {"p": "n2"}, ["what is kept is what was delivered"], id="another"),
        pytest.param(0, {"p": "n1"}, [], id="kept"),
        pytest.param(1, {}, [], id="ended by an attempt"),
    ],
)
def test_a_nomination_that_was_delivered(attempts: int, kept: Tree, rules: list[str]) -> None:
    story = Stories(*TWO, {**pod("p", cpu="4"), "status": {"nominatedNodeName": "n1"}})
    queues = {"active": [story.queued("p", attempts=attempts)]}
    assert story.books(queues=queues, nominations=kept).broken() == rules


def test_a_placed_pod_in_an_old_version() -> None:
    story = Stories(*TWO, pod("q", on="n1"))
    kept = {"placed": {"q": "n1"}, "versions": {"q": "1"}}
    assert story.books(**kept).broken() == ["what is kept is what was delivered"]


def test_a_pod_with_gates_that_is_active() -> None:
    story = Stories(*TWO, pod("p", schedulingGates=[{"name": "g"}]))
    story.books(queues={"active": [story.queued("p")]})
    assert story.broken() == ["what is kept is what was delivered"]


def test_a_pod_that_stays_assumed_after_it_is_gone() -> None:
    story = Stories(*TWO)
    for at in (1.0, 6.0):
        story.books(at=at, assumed=["p"], placed={"p": "n1"})
    assert story.broken() == ["what is kept is what was delivered"]


@pytest.mark.parametrize(
    ("cpu", "why", "rules"),
    [
        pytest.param("1", "NodeResourcesFit", ["no pod misses its event"], id="it fits"),
        pytest.param("4", "NodeResourcesFit", [], id="it does not fit"),
        pytest.param("1", "Holding", [], id="a plugin of the universe rejected it"),
    ],
)
def test_a_pod_that_waits_although_it_fits(cpu: str, why: str, rules: list[str]) -> None:
    story = Stories(*TWO, pod("p", cpu=cpu))
    for at in (1.0, 6.0):
        story.books(at=at, queues={"unschedulable": [story.queued("p", why)]})
    assert story.broken() == rules


@pytest.mark.parametrize(
    ("status", "rules"),
    [
        pytest.param({}, [], id="not written"),
        pytest.param({"nominatedNodeName": "n1"}, ["no pod misses its event"], id="written"),
    ],
)
def test_a_pod_that_waits_after_a_nominated_pod_is_gone(status: Tree, rules: list[str]) -> None:
    urgent = {**pod("u", cpu="2", priority=10), "status": status}
    story = Stories(node("n1"), node("n2", cpu="0"), pod("p"), urgent).attempt("u").attempt("p")
    waits = [story.queued("p", "NodeResourcesFit")]
    story.books(
        at=5.0, nominations={"u": "n1"}, queues={"active": [story.queued("u")], "unschedulable": waits}
    )
    story.write(urgent, gone=True)
    for at in (7.0, 12.0):
        story.books(at=at, queues={"unschedulable": waits})
    assert story.broken() == rules


@pytest.mark.parametrize(("queue", "seconds"), [("active", 61.0), ("backoff", 13.0), ("unschedulable", 93.0)])
def test_a_pod_that_stays_in_one_queue(queue: str, seconds: float) -> None:
    story = Stories(*TWO, pod("p", cpu="4"), flush=60.0)
    for at in (1.0, 1.0 + seconds):
        story.books(at=at, queues={queue: [story.queued("p", "NodeResourcesFit")]})
    assert story.broken() == ["no pod is left waiting"]
    story.entries[-1]["leads"] = False
    assert not story.broken()
    story.entries[-1] |= {"leads": True}
    story.entries.insert(-1, {"entry": "fault", "at": 1.0, "by": "", "fault": "pause", "what": ""})
    assert not story.broken()


def test_an_activated_pod_that_backs_off() -> None:
    story = Stories(*TWO, pod("p", cpu="4")).note(entry="activated", key="default/p", uid="p")
    assert story.books(queues={"backoff": [story.queued("p")]}).broken() == ["an activated pod is active"]


def test_a_rejected_pod_that_does_not_back_off() -> None:
    story = Stories(*TWO, pod("p", cpu="4"), patient=True).attempt("p").attempt("p")
    assert story.broken() == ["a rejected pod backs off"]
    # By its name: the plugin may know only the pod of this name that was there before.
    story.entries.insert(-1, {"entry": "activated", "at": 3.0, "by": BY, "key": "default/p", "uid": "o"})
    assert not story.broken()


def test_a_pod_that_is_placed_in_an_old_version() -> None:
    story = Stories(*TWO, pod("p"))
    assert story.attempt("p", "n1", version="2").broken() == ["a pod is placed in its newest version"]


LEASE: Tree = {"kind": "Lease", "metadata": {"name": "lease", "namespace": "kube-system"}}


def test_a_lease_that_is_taken_from_its_holder() -> None:
    story = Stories(*TWO, replicas=2).write({**LEASE, "spec": {"holderIdentity": "scheduler-b-1"}})
    story.write({**LEASE, "spec": {"holderIdentity": BY}}, by=BY)
    assert story.broken() == ["a lease that is held is not taken"]
    story.entries[-1]["sent"] = 20.0
    assert not story.broken()


def test_a_write_by_a_process_that_saw_another_leader() -> None:
    story = Stories(*TWO, pod("p"), replicas=2).write({**LEASE, "spec": {"holderIdentity": BY}}, by=BY)
    story.write({**LEASE, "spec": {"holderIdentity": "intruder"}}).attempt("p", "n1")
    story.write(pod("p", on="n1"), by=BY)
    assert not story.broken()
    story.entries.insert(-1, {"entry": "lease", "at": 5.5, "by": BY, "holder": "intruder"})
    assert story.broken() == ["a process that saw another leader writes nothing"]


@pytest.mark.parametrize(
    ("what", "cause", "rules"),
    [
        pytest.param("popped twice", "", ["the scheduler logs no defect"], id="a defect"),
        pytest.param("plugin failed", "RuntimeError('a plugin of the universe fails')", [], id="a plugin"),
        pytest.param("plugin failed", "NotFoundError('pods')", [], id="the API server"),
    ],
)
def test_a_logged_error(what: str, cause: str, rules: list[str]) -> None:
    assert Stories().note(entry="log", what=what, cause=cause).broken() == rules


def test_a_scheduler_that_spins() -> None:
    assert Stories().note(entry="error", what="spins").broken() == ["the scheduler goes on"]


# What only some universes have


def budget(allowed: int) -> Tree:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "w"}}},
        "status": {"disruptionsAllowed": allowed},
    }


@pytest.mark.parametrize(
    ("allowed", "elsewhere", "rules"),
    [
        pytest.param(0, [pod("o", on="n2", cpu="2")], ["no victim without need"], id="another node would do"),
        pytest.param(1, [pod("o", on="n2", cpu="2")], [], id="it allows one"),
        pytest.param(0, [pod("o", on="n2", cpu="2", priority=9)], [], id="there is no other way"),
    ],
)
def test_a_victim_against_a_budget(allowed: int, elsewhere: list[Tree], rules: list[str]) -> None:
    story = Stories(*TWO, FULL, *elsewhere, pod("p", priority=1), budget(allowed)).attempt("p")
    assert story.write(marked(FULL), by=BY).broken() == rules


def storage_class(mode: str = "WaitForFirstConsumer", provisioner: str = "csi.example.com") -> Tree:
    metadata = {"name": "class"}
    return {
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def claim(volume: str = "", *, mode: str = "ReadWriteOnce", name: str = "c", **annotations: str) -> Tree:
    annotations |= {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    spec = {"accessModes": [mode], "storageClassName": "class", "volumeName": volume}
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": annotations},
        "spec": {**spec, "resources": {"requests": {"storage": "1Gi"}}},
    }


def volume(zone: str = "a", *, claimed: str = "c") -> Tree:
    expressions = [{"key": ZONE, "operator": "In", "values": [zone]}]
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "class",
            "claimRef": {"name": claimed, "uid": claimed},
            "csi": {"driver": "csi.example.com"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}},
        },
    }


def with_claim(name: str, **spec: Any) -> Tree:
    return pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}], **spec)


LIMIT: Tree = {
    "kind": "CSINode",
    "metadata": {"name": "n1"},
    "spec": {"drivers": [{"name": "csi.example.com", "allocatable": {"count": 0}}]},
}
SELECTED = {"volume.kubernetes.io/selected-node": "n2"}
NO_PROVISIONER = "kubernetes.io/no-provisioner"

VOLUMES: dict[str, tuple[list[Tree], bool]] = {
    "a volume that reaches the node": ([claim("v"), volume()], True),
    "a volume elsewhere": ([claim("v"), volume("b")], False),
    "no claim": ([], False),
    "a volume is made with the node": ([storage_class(), claim()], True),
    "a volume should be there": ([storage_class("Immediate"), claim()], False),
    "a volume is made elsewhere": ([storage_class(), claim(**SELECTED)], False),
    "no volume to be had": ([storage_class(provisioner=NO_PROVISIONER), claim()], False),
    "a volume to be had": ([storage_class(provisioner=NO_PROVISIONER), claim(), volume()], True),
    "a volume of another": ([storage_class(provisioner=NO_PROVISIONER), claim(), volume(claimed="d")], False),
    "a claim for one pod": ([claim("v", mode="ReadWriteOncePod"), volume(), with_claim("o", on="n2")], False),
    "too many volumes": ([claim("v"), volume(), LIMIT], False),
}


@pytest.mark.parametrize("case", VOLUMES)
def test_volumes_of_a_placement(case: str) -> None:
    objects, fits = VOLUMES[case]
    story = Stories(*TWO, *objects, with_claim("p")).attempt("p", "n1")
    assert story.broken() == ([] if fits else ["volumes"])


def test_a_binding_without_the_volume_and_away_from_it() -> None:
    bound = with_claim("p", on="n1")
    story = Stories(*TWO, storage_class(), claim(), with_claim("p")).attempt("p", "n1").write(bound, by=BY)
    assert story.broken() == ["a pod is bound with its volumes"]
    story = Stories(*TWO, storage_class(), claim(), with_claim("p")).attempt("p", "n1")
    story.write(volume("b")).write(claim("v")).write(bound, by=BY)
    assert story.broken() == ["a pod is bound with its volumes"]


def test_a_volume_that_is_given_twice() -> None:
    story = Stories(*TWO, volume(claimed="c")).write(volume(claimed="d"), by=BY)
    assert story.broken() == ["a volume is given once"]


def devices(*names: str) -> Tree:
    listed = [{"name": name, "attributes": {"healthy": {"bool": True}}} for name in names]
    pool = {"name": "n1", "generation": 1}
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": "n1"},
        "spec": {"driver": "d", "pool": pool, "nodeName": "n1", "devices": listed},
    }


def device_claim(name: str, *given: str, users: tuple[str, ...] = (), node_name: str = "n1") -> Tree:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node_name]}]
    allocation = {
        "devices": {"results": [{"driver": "d", "pool": "n1", "device": device} for device in given]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }
    reserved = [{"name": user, "uid": user} for user in users]
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"count": 1}}]}},
        "status": {"allocation": allocation, "reservedFor": reserved} if given else {},
    }


def with_device(name: str, **spec: Any) -> Tree:
    return pod(name, resourceClaims=[{"name": "d", "resourceClaimName": f"of-{name}"}], **spec)


DEVICES: dict[str, tuple[list[Tree], bool]] = {
    "a free device": ([devices("x"), device_claim("of-p")], True),
    "no device": ([device_claim("of-p")], False),
    "no claim": ([devices("x")], False),
    "a device of another": ([devices("x"), device_claim("of-p"), device_claim("of-q", "x")], False),
    "devices of its own": ([devices("x"), device_claim("of-p", "x")], True),
    "devices of its own elsewhere": ([devices("x"), device_claim("of-p", "x", node_name="n2")], False),
}


@pytest.mark.parametrize("case", DEVICES)
def test_devices_of_a_placement(case: str) -> None:
    objects, fits = DEVICES[case]
    story = Stories(*TWO, *objects, with_device("p")).attempt("p", "n1")
    assert story.broken() == ([] if fits else ["devices"])


def test_a_device_that_the_same_process_gave_is_taken() -> None:
    objects = [devices("x"), device_claim("of-p"), device_claim("of-q"), with_device("p"), with_device("q")]
    assert Stories(*TWO, *objects).attempt("p", "n1").attempt("q", "n1").broken() == ["devices"]


@pytest.mark.parametrize("had_devices", [True, False])
def test_a_device_that_a_claim_loses_while_its_pod_is_bound(had_devices: bool) -> None:
    """As upstream, it is free: the pod fails to be bound."""
    objects = [device_claim("of-p", *(["x"] if had_devices else [])), device_claim("of-q")]
    story = Stories(*TWO, devices("x"), *objects, with_device("p"), with_device("q")).attempt("p", "n1")
    story.write(device_claim("of-p")).attempt("q", "n1")
    assert story.broken() == ([] if had_devices else ["devices"])


def test_a_device_that_is_given_twice() -> None:
    objects = [devices("x"), device_claim("of-p"), device_claim("of-q"), with_device("p"), with_device("q")]
    story = Stories(*TWO, *objects).attempt("p", "n1").write(device_claim("of-p", "x"), by=BY)
    story.note(entry="undone", key="default/p", uid="p", node="n1")
    assert not story.broken()
    assert story.write(device_claim("of-q", "x"), by=BY).broken() == ["a device is given once"]


def test_a_device_that_does_not_exist() -> None:
    story = Stories(*TWO, devices("x"), device_claim("of-p"), with_device("p")).attempt("p", "n1")
    assert story.write(device_claim("of-p", "y"), by=BY).broken() == ["only devices that exist are given"]


def test_a_binding_without_the_devices() -> None:
    story = Stories(*TWO, devices("x"), device_claim("of-p"), with_device("p")).attempt("p", "n1")
    story.write(device_claim("of-p", "x"), by=BY).write(with_device("p", on="n1"), by=BY)
    assert story.broken() == ["a pod is bound with its devices"]


def gang(count: int) -> Tree:
    spec = {"schedulingPolicy": {"gang": {"minCount": count}}}
    return {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "default"}, "spec": spec}


def member(name: str, **spec: Any) -> Tree:
    return pod(name, schedulingGroup={"podGroupName": "g"}, **spec)


def test_a_gang_of_which_one_pod_is_bound() -> None:
    objects = [*TWO, gang(2), member("p"), member("q")]
    bound = member("p", on="n1")
    story = Stories(*objects).attempt("p", "n1").write(bound, by=BY)
    assert story.broken() == ["gangs are bound together"]
    assert not Stories(*objects).attempt("p", "n1").attempt("q", "n2").write(bound, by=BY).broken()
    # As upstream, a trial of the others lets a pod go that waits at Permit.
    assert (
        not Stories(*objects).attempt("p", "n1").attempt("q", "n2", trial=True).write(bound, by=BY).broken()
    )
    tried = Stories(*objects).attempt("p", "n1", trial=True).attempt("q", "n2", trial=True)
    assert tried.write(bound, by=BY).broken() == ["gangs are bound together"]
    undone = Stories(*objects).attempt("q", "n2", trial=True)
    undone.note(entry="undone", key="default/q", uid="q", node="n2").attempt("p", "n1")
    assert undone.write(bound, by=BY).broken() == ["gangs are bound together"]


def test_a_pod_whose_group_does_not_exist() -> None:
    assert Stories(*TWO, member("p")).attempt("p", "n1").broken() == ["a pod without its group is not placed"]


@pytest.mark.parametrize(
    ("count", "cpu", "rules"),
    [
        pytest.param(2, "1", ["every pod that fits is bound"] * 2, id="all fit"),
        pytest.param(2, "2", ["every pod that fits is bound"] * 2, id="one on each node"),
        pytest.param(3, "1", [], id="one is missing"),
    ],
)
def test_a_gang_that_is_not_bound(count: int, cpu: str, rules: list[str]) -> None:
    story = Stories(*TWO, gang(count), member("p", cpu=cpu), member("q", cpu=cpu))
    assert story.end(queued=["default/p", "default/q"]).broken() == rules


def test_a_gang_that_fits_in_part_is_not_missed() -> None:
    story = Stories(node("n1"), gang(2), member("p", cpu="2"), member("q", cpu="2"))
    assert not story.end(nodes=1, queued=["default/p", "default/q"]).broken()


def test_a_node_that_the_extender_refuses() -> None:
    third = node("n3")
    assert Stories(third, pod("p"), extender="strict").attempt("p", "n3").broken() == ["extender"]
    assert not Stories(third, pod("p"), extender="ignorable").attempt("p", "n3").broken()
    assert not Stories(third, pod("p"), extender="ignorable").end(nodes=1, queued=["default/p"]).broken()


def test_a_pod_without_its_license() -> None:
    labelled = pod("p")
    labelled["metadata"]["labels"]["license"] = "x"
    license_ = {
        "kind": "License",
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {"valid": True},
    }
    assert Stories(*TWO, labelled).attempt("p", "n1").broken() == ["license"]
    assert not Stories(*TWO, labelled, license_).attempt("p", "n1").broken()
    assert Stories(*TWO, labelled, license_).end(queued=["default/p"]).broken()
    invalid = {**license_, "spec": {"valid": False}}
    assert not Stories(*TWO, labelled, invalid).end(queued=["default/p"]).broken()
    assert Stories(*TWO, labelled, invalid).attempt("p", "n1").broken() == ["license"]


# What kube-scheduler does, too


def waits(
    *objects: Tree, name: str, nominations: Tree | None = None, after_failure: Sequence[Tree] = ()
) -> list[str]:
    """The rules that are broken if a pod waits for five seconds although it fits.

    `after_failure`: objects that are written after the pod was tried.
    """
    story = Stories(*TWO, *objects)
    if after_failure:
        story.attempt(name)
    for each in after_failure:
        story.write(each)
    last = {each["metadata"]["name"]: each for each in (*objects, *after_failure)}
    placed = {other: each["spec"]["nodeName"] for other, each in last.items() if on_a_node(each)}
    others = [story.queued(other) for other in last if other not in placed and other != name]
    queues = {"unschedulable": [story.queued(name, "PodTopologySpread")], "backoff": others}
    for at in (101.0, 106.0):
        versions = {each: story.version(each, story.revision) for each in placed}
        kept = {"placed": placed, "versions": versions, "nominations": nominations or {}}
        story.books(at=at, queues=queues, **kept)
    return story.broken()


def on_a_node(each: Tree) -> bool:
    return bool(each["spec"].get("nodeName"))


def test_no_event_says_that_spread_sums_lose_a_pod_that_begins_to_be_deleted() -> None:
    full = pod("o", on="n2", cpu="2")
    waiting = pod("w2", topologySpreadConstraints=[SPREAD])
    assert not waits(full, marked(pod("w1", on="n1")), waiting, name="w2")
    assert waits(full, waiting, name="w2") == ["no pod misses its event"]


@pytest.mark.parametrize("nominated", ["n1", ""])
def test_no_event_says_that_a_nominated_pod_was_placed_on_another_node(nominated: str) -> None:
    other = {**pod("o1"), "status": {"nominatedNodeName": nominated, "phase": "Pending"}}
    objects = pod("o2", on="n2"), other, pod("w", cpu="2")
    rules = waits(*objects, name="w", after_failure=[pod("o1", on="n2")])
    assert rules == ([] if nominated else ["no pod misses its event"])


def test_pods_that_were_being_deleted_at_the_last_attempt_do_not_count() -> None:
    # With all pods that are being deleted, both zones have two, and the pod fits; when tried, it did not.
    here = [pod(name, on="n1", cpu="0") for name in ("w1", "w2")]
    there = [marked(pod(name, on="n2", cpu="0")) for name in ("w3", "w4")]
    objects = (pod("o", on="n2", cpu="2"), *here, *there, pod("w5", topologySpreadConstraints=[SPREAD]))
    assert not waits(*objects, name="w5", after_failure=[marked(each) for each in here])


def test_pods_that_are_nominated_for_other_nodes_do_not_count_while_a_node_is_tried() -> None:
    # With both nominated pods no zone has more than another; each node is tried with one of them.
    waiting = pod("w3", topologySpreadConstraints=[SPREAD])
    both = {"w1": "n1", "w2": "n2"}
    assert not waits(pod("w1"), pod("w2"), waiting, name="w3", nominations=both)
    assert waits(pod("w1"), pod("w2"), waiting, name="w3") == ["no pod misses its event"]
    spread_evenly = pod("o3", topologySpreadConstraints=[SPREAD])
    broken = waits(pod("w1"), pod("w2"), spread_evenly, name="o3", nominations=both)
    assert broken == ["no pod misses its event"]


@pytest.mark.parametrize(
    ("later", "rules"),
    [
        pytest.param(0.0, [], id="at once"),
        pytest.param(1.0, ["pod affinity"], id="later"),
    ],
)
def test_a_pod_that_is_deleted_at_permit_counts_until_its_binding_cycle_ends(
    later: float, rules: list[str]
) -> None:
    near = pod("w2", affinity={"podAffinity": {REQUIRED: [WEB]}})
    story = Stories(*TWO, pod("w3", on="n2"), pod("w1"), near).attempt("w1", "n1")
    story.write(pod("w1"), gone=True).attempt("w2", "n1")
    story.note(entry="undone", key="default/w1", uid="w1", node="n1")
    story.entries[-1]["at"] += later
    assert story.broken() == rules


def test_no_event_says_that_the_last_pod_is_gone_that_another_had_to_be_near() -> None:
    near = pod("w2", affinity={"podAffinity": {REQUIRED: [WEB]}})
    full = [pod("w1", on="n1"), pod("o", on="n1")]
    story = Stories(*TWO, *full, near).attempt("w2").write(full[0], gone=True)
    assert not story.end(queued=["default/w2"], **{"placed pods": 1}).broken()
    story = Stories(*TWO, *full, near).write(full[0], gone=True).attempt("w2")
    broken = story.end(queued=["default/w2"], **{"placed pods": 1}).broken()
    assert broken == ["every pod that fits is bound"]


@pytest.mark.parametrize(
    ("when", "rules"),
    [
        pytest.param("before", [], id="while it is bound"),
        pytest.param("after", ["no pod misses its event"], id="after it is bound"),
    ],
)
def test_no_event_says_that_a_pod_lost_a_label_while_it_was_bound(when: str, rules: list[str]) -> None:
    story = Stories(*TWO, pod("o", on="n2", cpu="2"), pod("w1")).attempt("w1", "n1")
    odd = pod("w1", on="n1")
    odd["metadata"]["labels"] = {"app": "odd"}
    story.write(odd if when == "before" else pod("w1", on="n1"), by=BY).write(odd)
    story.write(pod("w2", topologySpreadConstraints=[SPREAD]))
    for at in (10.0, 15.0):
        placed = {"w1": "n1", "o": "n2"}
        versions = {each: story.version(each, story.revision) for each in placed}
        queues = {"unschedulable": [story.queued("w2", "PodTopologySpread")]}
        story.books(at=at, queues=queues, placed=placed, versions=versions)
    assert story.broken() == rules


def nominated(obj: Tree, node_name: str) -> Tree:
    return {**obj, "status": {"nominatedNodeName": node_name}}


@pytest.mark.parametrize(
    ("count", "nominee", "rules"),
    [
        pytest.param(3, "n1", [], id="incomplete"),
        pytest.param(3, "", ["every pod that fits is bound"], id="not nominated"),
        pytest.param(2, "n1", ["every pod that fits is bound"] * 3, id="complete"),
    ],
)
def test_the_room_of_nominated_pods_of_an_incomplete_gang_is_not_free(
    count: int, nominee: str, rules: list[str]
) -> None:
    members = [nominated(member(name), nominee) for name in ("p", "q")]
    story = Stories(node("n1"), gang(count), *members, pod("o"))
    assert story.end(nodes=1, queued=["default/o", "default/p", "default/q"]).broken() == rules


def test_a_gang_of_which_a_pod_has_no_license_is_not_missed() -> None:
    unlicensed = member("q")
    unlicensed["metadata"]["labels"]["license"] = "g"
    story = Stories(*TWO, gang(2), member("p"), unlicensed)
    assert not story.end(queued=["default/p", "default/q"]).broken()
    license_: Tree = {"kind": "License", "metadata": {"name": "g", "namespace": "default"}}
    story = Stories(*TWO, gang(2), member("p"), unlicensed, {**license_, "spec": {"valid": True}})
    assert story.end(queued=["default/p", "default/q"]).broken() == ["every pod that fits is bound"] * 2


@pytest.mark.parametrize(
    ("victim", "priority", "rules"),
    [
        pytest.param(FULL, 1, [], id="a victim that is not evicted"),
        pytest.param(FULL, 0, ["a rejected pod backs off"], id="of a pod that is as important"),
        pytest.param(pod("w"), 1, ["a rejected pod backs off"], id="a pod without a node"),
    ],
)
def test_a_failed_eviction_activates_the_preemptor(victim: Tree, priority: int, rules: list[str]) -> None:
    story = Stories(node("n1"), victim, pod("p", cpu="2", priority=priority), patient=True).attempt("p")
    story.note(entry="fault", fault="internal", what="delete Pod default/w")
    assert story.attempt("p").broken() == rules


def test_a_victim_that_is_being_bound_counts_for_a_failed_eviction() -> None:
    story = Stories(node("n1"), pod("w", cpu="2"), pod("p", cpu="2", priority=1), patient=True)
    story.attempt("w", on="n1").attempt("p")
    story.note(entry="fault", fault="internal", what="delete Pod default/w")
    assert not story.attempt("p").broken()


@pytest.mark.parametrize(
    ("about", "cause", "rules"),
    [
        pytest.param("pod default/p", "not the leader any more", [], id="no right to write"),
        pytest.param(
            "pod default/q", "not the leader any more", ["a rejected pod backs off"], id="of another"
        ),
        pytest.param("pod default/p", "no such victim", ["a rejected pod backs off"], id="another cause"),
    ],
)
def test_an_eviction_that_may_not_be_written_activates_the_preemptor(
    about: str, cause: str, rules: list[str]
) -> None:
    story = Stories(node("n1"), FULL, pod("p", cpu="2", priority=1), patient=True).attempt("p")
    what = "preemption for %s on node %s failed"
    story.note(entry="log", what=what, about=about, cause=f"ApiError('{cause}')")
    assert story.attempt("p").broken() == rules


@pytest.mark.parametrize(
    ("status", "rules"),
    [
        pytest.param({"nominatedNodeName": "n1"}, [], id="nominated"),
        pytest.param({}, ["no victim without need"], id="not nominated"),
    ],
)
def test_the_room_of_a_nominated_pod_is_not_free_for_a_preemptor(status: Tree, rules: list[str]) -> None:
    victim, rival = pod("w", on="n1"), {**pod("r", priority=1), "status": status}
    story = Stories(node("n1"), victim, rival, pod("p", priority=1)).attempt("p")
    assert story.write(marked(victim), by=BY).broken() == rules


@pytest.mark.parametrize("written", [False, True])
def test_devices_that_were_not_written_are_given_back_without_an_event(written: bool) -> None:
    objects = [devices("x"), device_claim("of-p"), device_claim("of-q"), with_device("p"), with_device("q")]
    story = Stories(*TWO, *objects).attempt("q", "n1").attempt("p")
    if written:
        story.write(device_claim("of-q", "x"), by=BY)
    story.note(entry="undone", key="default/q", uid="q", node="n1")
    story.write(device_claim("of-q")).write(with_device("q"), gone=True)
    rules = ["every pod that fits is bound"] if written else []
    assert story.end(queued=["default/p"]).broken() == rules


@pytest.mark.parametrize("is_bound", [False, True])
def test_volumes_of_unbound_claims_are_given_back_without_an_event(is_bound: bool) -> None:
    of_q = pod("q", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "d"}}])
    free = volume()
    del free["spec"]["claimRef"]
    objects = [
        storage_class(provisioner=NO_PROVISIONER),
        free,
        claim(),
        claim(name="d"),
        with_claim("p"),
        of_q,
    ]
    story = Stories(*TWO, *objects).attempt("q", "n1").attempt("p")
    if is_bound:
        story.write(claim("v", name="d"), by=BY)
    story.note(entry="undone", key="default/q", uid="q", node="n1").write(of_q, gone=True)
    rules = ["every pod that fits is bound"] if is_bound else []
    assert story.end(queued=["default/p"]).broken() == rules


@pytest.mark.parametrize(
    ("what", "rules"),
    [
        pytest.param("patch status of ResourceClaim default/of-p", [], id="of its claim"),
        pytest.param(
            "patch status of ResourceClaim default/of-q", ["a rejected pod backs off"], id="of another"
        ),
        pytest.param("patch ResourceClaim default/of-p", ["a rejected pod backs off"], id="another write"),
    ],
)
def test_a_failed_deallocation_activates_the_pod(what: str, rules: list[str]) -> None:
    objects = [device_claim("of-p", "x", node_name="n3"), with_device("p")]
    story = Stories(*TWO, *objects, patient=True).attempt("p")
    story.note(entry="fault", fault="lost", what=what)
    assert story.attempt("p").broken() == rules


@pytest.mark.parametrize(
    ("written", "by", "rules"),
    [
        pytest.param("of-p", BY, [], id="its claim"),
        pytest.param("of-q", BY, ["a rejected pod backs off"], id="another claim"),
        pytest.param("of-p", "users", ["a rejected pod backs off"], id="by another client"),
    ],
)
def test_a_deallocation_that_meets_a_conflict_activates_the_pod(
    written: str, by: str, rules: list[str]
) -> None:
    """The process itself has allocated the claim for another pod."""
    objects = [device_claim("of-p", "x", node_name="n3"), device_claim("of-q"), with_device("p")]
    story = Stories(*TWO, *objects, patient=True).attempt("p")
    soon = story.revision + 0.5
    story.write(device_claim(written, "y", node_name="n3"), by=by).attempt("p", at=soon)
    assert [rule for rule in story.broken() if "backs off" in rule] == rules


@pytest.mark.parametrize(
    ("fault", "what", "attempts", "rules"),
    [
        pytest.param("dropped", "patch ResourceClaim default/of-p", 1, [], id="dropped"),
        pytest.param("lost", "patch status of ResourceClaim default/of-p", 1, [], id="lost"),
        pytest.param("lost", "patch ResourceClaim default/of-p", 2, ["a rejected pod backs off"], id="once"),
        pytest.param(
            "lost", "patch ResourceClaim default/of-q", 1, ["a rejected pod backs off"], id="of another"
        ),
        pytest.param(
            "too many", "patch ResourceClaim default/of-p", 1, ["a rejected pod backs off"], id="refused"
        ),
    ],
)
def test_a_pod_is_activated_when_it_is_known_whether_its_claim_was_written(
    fault: str, what: str, attempts: int, rules: list[str]
) -> None:
    objects = [devices("x"), device_claim("of-p"), with_device("p")]
    story = Stories(*TWO, *objects, patient=True).attempt("p", "n1")
    story.note(entry="fault", fault=fault, what=what).note(
        entry="undone", key="default/p", uid="p", node="n1"
    )
    for _ in range(attempts + 1):
        story.attempt("p")
    assert story.broken() == rules


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_victim_on_the_node_of_a_volume_that_the_process_alone_knows_of(is_shared: bool) -> None:
    other = with_claim("o") if is_shared else pod("o")
    victim = pod("w", on="n1")
    objects = [storage_class(), claim(), victim, other, with_claim("p", priority=1)]
    story = Stories(*TWO, *objects).attempt("o", "n1").attempt("p").write(marked(victim), by=BY)
    assert story.broken() == ([] if is_shared else ["no victim without need"])


REPORTED = {"conditions": [{"type": "PodScheduled", "status": "False"}]}


@pytest.mark.parametrize(
    ("status", "tried_at", "rules"),
    [
        pytest.param({}, 95.0, ["a rejected pod is reported"], id="not reported"),
        pytest.param(REPORTED, 95.0, [], id="reported"),
        pytest.param({}, 80.0, [], id="while requests failed"),
        pytest.param({}, 325.0, [], id="just now"),
    ],
)
def test_a_rejected_pod_is_reported(status: Tree, tried_at: float, rules: list[str]) -> None:
    waiting = {**pod("p", cpu="9"), "status": status}
    story = Stories(node("n1"), waiting).note(entry="calm", at=90.0).attempt("p", at=tried_at)
    story.end(nodes=1, queued=["default/p"]).entries[-1]["at"] = 330.0
    assert story.broken() == rules


@pytest.mark.parametrize(("renewed_at", "rules"), [(90.0, ["a rejected pod is reported"]), (80.0, [])])
def test_a_process_that_may_not_write_reports_nothing(renewed_at: float, rules: list[str]) -> None:
    """It goes on after a pause, before it has renewed its lease."""
    story = Stories(node("n1"), pod("p", cpu="9"), replicas=2)
    story.write({**LEASE, "spec": {"holderIdentity": BY}}, by=BY).entries[-1]["sent"] = renewed_at
    story.note(entry="calm", at=90.0).attempt("p", at=95.0)
    story.end(nodes=1, queued=["default/p"]).entries[-1]["at"] = 330.0
    assert story.broken() == rules
