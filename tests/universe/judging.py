"""The judge: reads a story and says which rules it breaks.

In: the story, a list of plain JSON trees: every write that the API server stored, and for every decision of a
scheduler the revision up to which the server had delivered each kind to that process. Out: `Broken` rules.
Nothing is imported from the scheduler.

A decision is judged against one exact state: each kind at the revision delivered to the process when Reserve
ran, plus the pods that the same process had placed before and not given up. Nothing that was delivered may be
ignored, and nothing that was not delivered is held against the scheduler. A binding is judged at the moment
at which its request was sent: a request may arrive after its sender has died or lost its lease.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.universe.rules import State, Tree, broken_rules

ENDED = ("Succeeded", "Failed")


class Broken(NamedTuple):
    """A rule that a story breaks."""

    rule: str
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.at:9.3f} s  {self.rule}: {self.what}"


def judge(story: Sequence[Tree]) -> list[Broken]:
    """All broken rules, in the order of the story."""
    return list(_Judge(story).read())


class History:
    """All versions of all objects of one kind."""

    def __init__(self) -> None:
        self._versions: dict[str, tuple[list[int], list[Tree | None]]] = {}

    def note(self, revision: int, key: str, tree: Tree | None) -> None:
        revisions, trees = self._versions.setdefault(key, ([], []))
        revisions.append(revision)
        trees.append(tree)

    def at(self, revision: int) -> dict[str, Tree]:
        """The objects as they were at a revision, by key."""
        found = {}
        for key, (revisions, trees) in self._versions.items():
            place = bisect_right(revisions, revision)
            if place and (tree := trees[place - 1]) is not None:
                found[key] = tree
        return found

    def newest(self) -> dict[str, Tree]:
        return {key: trees[-1] for key, (_, trees) in self._versions.items() if trees[-1] is not None}


class _Judge:
    def __init__(self, story: Sequence[Tree]) -> None:
        self._story = story
        self._kinds: dict[str, History] = defaultdict(History)
        self._assumed: dict[str, dict[str, str]] = defaultdict(dict)
        """By process: its decisions that were not given up, node by UID of the pod."""
        self._attempts: list[tuple[Tree, Mapping[str, str]]] = []
        """Attempts that found no node, the newest last, with what the process had placed by then."""
        self._bound: dict[str, tuple[str, float]] = {}
        """By UID of the pod: the process that bound it, and when."""
        self._leader: list[tuple[float, str]] = []
        self._elects = False

    def read(self) -> Iterator[Broken]:
        for entry in self._story:
            match entry["entry"]:
                case "begin":
                    self._elects = entry["replicas"] > 1
                case "write":
                    yield from self._judge_write(entry)
                    self._note(entry)
                case "decision":
                    yield from self._judge_decision(entry)
                    self._assumed[entry["by"]][entry["uid"]] = entry["node"]
                case "undone":
                    self._assumed[entry["by"]].pop(entry["uid"], None)
                case "no node":
                    self._attempts.append((entry, dict(self._assumed[entry["by"]])))
                case "error":
                    yield Broken("the scheduler goes on", entry["at"], entry["what"])
                case "end":
                    yield from self._judge_end(entry)

    def _note(self, entry: Tree) -> None:
        self._kinds[entry["kind"]].note(entry["revision"], entry["key"], entry["object"])
        if entry["kind"] == "Lease" and entry["object"] is not None:
            self._leader.append((entry["at"], entry["object"]["spec"].get("holderIdentity", "")))

    # Safety

    def _judge_write(self, entry: Tree) -> Iterator[Broken]:
        if entry["kind"] != "Pod" or not entry["by"].startswith("scheduler"):
            return
        old = self._kinds["Pod"].newest().get(entry["key"])
        new = entry["object"]
        at, key = entry["at"], entry["key"]
        if old is None:
            yield Broken("only users create pods", at, key)
            return
        if self._elects and (holder := self._leader_at(entry["sent"])) != entry["by"]:
            yield Broken("only the leader writes", at, f"{entry['by']} wrote {key}, but {holder} leads")
        if _is_marked(new) and not _is_marked(old):
            yield from self._judge_victim(entry, old)
        if new is None:
            return
        before, after = node_of(old), node_of(new)
        if before == after:
            by, since = self._bound.get(_uid(new), ("", 0.0))
            if by == entry["by"] and entry["sent"] < since and not entry["late"] and _is_rejected(new):
                yield Broken(
                    "a binding comes after earlier reports", at, f"{key} is reported as unschedulable"
                )
            return
        self._bound[_uid(new)] = entry["by"], at
        if before:
            yield Broken("a pod is bound once", at, f"{key} moves from {before} to {after}")
        decided = self._assumed[entry["by"]].get(_uid(new), "")
        if decided != after and not entry["late"]:
            yield Broken("a pod is bound where it was placed", at, f"{key} on {after}, not {decided!r}")
        if old["spec"].get("schedulingGates"):
            yield Broken("a gated pod is not bound", at, key)

    def _leader_at(self, at: float) -> str:
        return next((holder for since, holder in reversed(self._leader) if since <= at), "")

    def _judge_decision(self, entry: Tree) -> Iterator[Broken]:
        at, key, node = entry["at"], entry["key"], entry["node"]
        pods = self._seen_pods(entry)
        pod = pods.get(key)
        if pod is None or _uid(pod) != entry["uid"]:
            yield Broken("only pods that exist are placed", at, key)
            return
        if pod["spec"].get("schedulingGates"):
            yield Broken("a gated pod is not placed", at, key)
        if node_of(pod):
            yield Broken("a pod is placed once", at, f"{key} is on {node_of(pod)}")
        if self._assumed[entry["by"]].get(entry["uid"]):
            yield Broken("a pod is placed once", at, f"{key} was placed before and not given up")
        for rule in broken_rules(pod, node, self._state(entry, pods, self._assumed[entry["by"]])):
            yield Broken(rule, at, f"{key} on {node}")

    def _seen_pods(self, entry: Tree) -> dict[str, Tree]:
        pods = self._kinds["Pod"].at(entry["seen"].get("Pod", 0))
        return {key: pod for key, pod in pods.items() if not has_ended(pod)}

    def _state(self, entry: Tree, pods: Mapping[str, Tree], assumed: Mapping[str, str]) -> State:
        """What the process could know at this entry."""
        nodes = self._kinds["Node"].at(entry["seen"].get("Node", 0))
        placed = []
        for pod in pods.values():
            if node_of(pod):
                placed.append((pod, node_of(pod)))
            elif not _is_marked(pod):
                # A pod that is being deleted cannot be bound any more: the API server refuses it.
                placed.append((pod, assumed.get(_uid(pod), "")))
        return State(nodes, placed)

    def _judge_victim(self, entry: Tree, victim: Tree) -> Iterator[Broken]:
        """Some attempt of this process needs the victim's node, and the victim gone."""
        at, key = entry["at"], entry["key"]
        reasons = []
        for attempt, assumed in reversed(self._attempts):
            if attempt["by"] != entry["by"] or attempt["at"] < entry["sent"] - 60:
                continue
            pods = self._seen_pods(attempt)
            pod = pods.get(attempt["key"])
            if pod is None or _uid(pod) != attempt["uid"]:
                continue
            if _priority(pod) <= _priority(victim):
                reasons.append(f"{attempt['key']} is no more important")
                continue
            node = node_of(victim) or assumed.get(_uid(victim), "")
            state = self._state(attempt, pods, assumed)
            if not self._has_rivals(attempt, pod, pods) and any(
                not broken_rules(pod, name, state) for name in state.nodes
            ):
                reasons.append(f"{attempt['key']} fits without a victim")
                continue
            rules = broken_rules(pod, node, state.without(node, below=_priority(pod)))
            if any(_is_marked(other) for other in state.on(node)):
                # As upstream, a victim that is being deleted is taken away from sums that left it out.
                rules = [rule for rule in rules if rule != "topology spread"]
            if rules:
                reasons.append(f"{attempt['key']} does not fit even without all victims: {', '.join(rules)}")
                continue
            return
        yield Broken(
            "no victim without need", at, f"{key}: {'; '.join(dict.fromkeys(reasons)) or 'no attempt'}"
        )

    def _has_rivals(self, attempt: Tree, pod: Tree, pods: Mapping[str, Tree]) -> bool:
        """Whether another pod, at least as important, failed before: it may be nominated for any node, and
        the room that it waits for is not free."""
        return any(
            other["by"] == attempt["by"]
            and other["uid"] != attempt["uid"]
            and (rival := pods.get(other["key"])) is not None
            and not node_of(rival)
            and _priority(rival) >= _priority(pod)
            for other, _assumed in self._attempts
            if other["at"] <= attempt["at"]
        )

    # Liveness

    def _judge_end(self, entry: Tree) -> Iterator[Broken]:
        at = entry["at"]
        pods = {key: pod for key, pod in self._kinds["Pod"].newest().items() if not has_ended(pod)}
        nodes = self._kinds["Node"].newest()
        state = State(nodes, [(pod, node_of(pod)) for pod in pods.values() if node_of(pod)])
        ours = {key: pod for key, pod in pods.items() if pod["spec"]["schedulerName"] in entry["profiles"]}
        pending = {key: pod for key, pod in ours.items() if not node_of(pod)}
        for key, pod in sorted(pending.items()):
            if pod["spec"].get("schedulingGates") or _is_marked(pod):
                continue
            fitting = [name for name in sorted(nodes) if not broken_rules(pod, name, state)]
            if fitting:
                yield Broken("every pod that fits is bound", at, f"{key} fits on {', '.join(fitting)}")
        if entry["leader"] is None:
            yield Broken("a scheduler leads", at, "no process schedules after the faults")
            return
        books = entry["leader"]
        expected = {
            "nodes": len(nodes),
            "placed pods": sum(1 for pod in pods.values() if node_of(pod)),
            "assumed pods": 0,
            "in flight": [],
            "waiting on Permit": 0,
            "bindings under way": 0,
            "queued": sorted(key for key, pod in pending.items() if not _is_marked(pod)),
        }
        for name, wanted in expected.items():
            if books[name] != wanted:
                yield Broken("nothing is lost or left over", at, f"{name}: {books[name]}, not {wanted}")
        uids = {_uid(pod) for pod in pending.values()}
        if leftover := sorted(set(books["nominations"]) - uids):
            yield Broken("nothing is lost or left over", at, f"nominations of {leftover}")


def _is_rejected(pod: Tree) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


def node_of(pod: Tree) -> str:
    return str(pod["spec"].get("nodeName", ""))


def has_ended(pod: Tree) -> bool:
    return pod.get("status", {}).get("phase") in ENDED


def _uid(obj: Tree) -> str:
    return str(obj["metadata"]["uid"])


def _is_marked(pod: Tree | None) -> bool:
    return pod is None or "deletionTimestamp" in pod["metadata"]


def _priority(pod: Tree) -> int:
    return int(pod["spec"].get("priority", 0))
