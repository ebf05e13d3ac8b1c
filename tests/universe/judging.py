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
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache, partial
from typing import Final, NamedTuple

from tests.universe.books import Books
from tests.universe.books import key as pod_key
from tests.universe.claims import (
    allocated,
    claim_keys,
    device_claim_keys,
    is_allocated,
    is_bound,
    is_used_twice,
    volume_reaches,
)
from tests.universe.gangs import gang_fits, group_key, min_count
from tests.universe.rules import broken_rules, has_license, may_run, seeks_company, terms
from tests.universe.trees import State, Tree, labels, namespace, selects_pod

INTRUDER = "intruder"
"""Takes leases without asking."""
LEASE_SECONDS = 15.0
BACKOFF_SECONDS = 1.0
EXPECTED_LOGS: Final = (
    "scheduling pod %s failed, it will be retried: %s",
    "scheduling pod group %s failed, it will be retried: %s",
    "the status of pod %s/%s could not be written",
    "Evaluation failed on nominated node: %s",
    "plugin %r at %s: returned %s where %s is expected",
)
SHUTTING_DOWN: Final = "the scheduler is shutting down"
EXPECTED_CAUSES: Final = (
    "AnswerLostError",
    "ApiError",
    "ConflictError",
    "NotFoundError",
    "TooManyRequestsError",
    "UnreachableError",
)
EVICTING: Final = ("delete Pod", "patch status of Pod")
DEALLOCATING: Final = "patch status of ResourceClaim"
NOT_LEADING: Final = "not the leader"
FAILED_PREEMPTION: Final = "preemption for %s on node %s failed"
REPORT_SECONDS = 10.0
"""How long a report may take when no request fails."""
RENEW_SECONDS = 10.0
"""The renew deadline: a leader that has not renewed for so long writes nothing."""
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

    def between(self, key: str, first: int, last: int) -> list[Tree | None]:
        """The versions of an object from one revision to another."""
        revisions, trees = self._versions.get(key, ([], []))
        start = max(0, bisect_right(revisions, first) - 1)
        return trees[start : bisect_right(revisions, last)]

    def ever(self) -> list[Tree]:
        """All versions of all objects."""
        return [tree for _, trees in self._versions.values() for tree in trees if tree is not None]

    def newest(self) -> dict[str, Tree]:
        return {key: trees[-1] for key, (_, trees) in self._versions.items() if trees[-1] is not None}


class _Judge:
    def __init__(self, story: Sequence[Tree]) -> None:
        self._story = story
        self._place = 0
        """Of the entry that is judged."""
        self._kinds: dict[str, History] = defaultdict(History)
        self._assumed: dict[str, dict[str, str]] = defaultdict(dict)
        """By process: its decisions that were not given up, node by UID of the pod."""
        self._attempts: list[tuple[Tree, Mapping[str, str]]] = []
        """Attempts that found no node, the newest last, with what the process had placed by then."""
        self._bound: dict[str, tuple[str, float]] = {}
        """By UID of the pod: the process that bound it, and when."""
        self._leader: list[tuple[float, str]] = []
        self._renewed: dict[str, float] = {}
        """By process: when the last of its renewals that the server stored was sent."""
        self._books: dict[str, Books] = defaultdict(Books)
        """By process."""
        self._elects = self._patient = False
        self._flush_seconds = 0.0
        self._activated: dict[str, tuple[float, str]] = {}
        """By process: when it last activated a pod, and the UID of the pod."""
        self._saw_another: dict[str, float] = {}
        """By process: when it last read in the lease that another one leads."""
        self._tried: dict[tuple[str, str], Tree] = {}
        """The last attempt, by process and UID of the pod."""
        self._calm_since = float("inf")
        self._last_failed: dict[str, Tree] = {}
        """By UID of the pod: when it was last found to fit nowhere."""
        self._mute: set[str] = set()
        """UIDs of pods that last failed in a process that could not write so: it had not renewed its lease in
        time, as after a pause."""
        self._devices_given_back = 0.0
        """When a placement was last given up whose devices were not written yet."""
        self._volumes_given_back = 0.0
        """When a placement was last given up whose claims were not bound yet."""
        self._failed_as: dict[str, dict[str, Tree]] = defaultdict(dict)
        """By process and UID: pods that were found to fit nowhere and may preempt others, as they were."""
        self._rivals: dict[str, list[tuple[float, Tree]]] = defaultdict(list)
        """By process: those of them that are gone, and when."""
        self._jumped = False
        """Whether a scheduler's clock has jumped."""
        self._extender = ""
        self._decisions: dict[tuple[str, str], Tree] = {}
        """The last one, by process and UID of the pod."""
        self._placed_as: dict[tuple[str, str], Tree] = {}
        """The pod as it was at the last decision, by process and its UID."""
        self._changed_on_the_way: dict[str, Tree] = {}
        """By UID of bound pods whose labels changed while they were bound: the pod as it was placed."""
        self._slices_seen: dict[tuple[str, str], int] = {}
        """The revision of ResourceSlices at the last decision, by process and UID of the pod."""
        self._settled: dict[tuple[str, str], frozenset[str]] = {}
        """The device claims that had devices at the last decision, by process and UID of the pod."""
        self._doubts: set[tuple[str, str]] = set()
        """Process and key of pods that are activated when it is known whether their claim was written."""
        self._on_trial: set[tuple[str, str]] = set()
        """Process and UID of pods that were last placed to find out whether their group fits."""
        self._complete: set[tuple[str, str]] = set()
        """Process and UID of pods whose gang had its minimum at one moment since they were placed."""
        self._allocated_by: dict[str, str] = {}
        """By key of the device claim: the process that wrote its present allocation."""

    def read(self) -> Iterator[Broken]:
        for place, entry in enumerate(self._story):
            self._place = place
            match entry["entry"]:
                case "begin":
                    self._elects = entry["replicas"] > 1
                    self._patient = entry["patient"]
                    self._flush_seconds = entry["flush_seconds"]
                    self._extender = entry["extender"]
                case "write":
                    yield from self._judge_write(entry)
                    self._note(entry)
                    if entry["kind"] == "ResourceClaim":
                        # A deallocation that is in flight meets a conflict.
                        self._forget_tries_of_users(entry["by"], entry["key"])
                case "decision":
                    yield from self._judge_pause(entry)
                    yield from self._judge_decision(entry)
                    self._assumed[entry["by"]][entry["uid"]] = entry["node"]
                    if (pod := self._seen_pods(entry).get(entry["key"])) is not None:
                        self._placed_as[entry["by"], entry["uid"]] = pod
                    self._slices_seen[entry["by"], entry["uid"]] = entry["seen"].get("ResourceSlice", 0)
                    claims = self._kinds["ResourceClaim"].at(entry["seen"].get("ResourceClaim", 0))
                    self._settled[entry["by"], entry["uid"]] = frozenset(
                        key for key, claim in claims.items() if is_allocated(claim)
                    )
                    self._on_trial.add((entry["by"], entry["uid"]))
                    if not entry["trial"]:
                        self._on_trial.discard((entry["by"], entry["uid"]))
                        self._decisions[entry["by"], entry["uid"]] = entry
                    self._note_gang(entry)
                case "undone":
                    self._assumed[entry["by"]].pop(entry["uid"], None)
                    if self._has_devices_of_its_own(entry):
                        self._devices_given_back = entry["at"]
                    if self._has_volumes_of_its_own(entry):
                        self._volumes_given_back = entry["at"]
                case "fault":
                    self._jumped |= entry["fault"] == "clock jumps"
                    if entry["fault"] == "pause":
                        self._books.clear()
                    self._note_failed_eviction(entry)
                    self._note_failed_deallocation(entry)
                    self._note_doubt(entry)
                case "no node":
                    yield from self._judge_pause(entry)
                    self._tried[entry["by"], entry["uid"]] = entry
                    self._last_failed[entry["uid"]] = entry
                    self._mute.discard(entry["uid"])
                    if self._elects and entry["at"] - self._renewed.get(entry["by"], 0.0) >= RENEW_SECONDS:
                        self._mute.add(entry["uid"])
                    failed = self._seen_pods(entry).get(entry["key"])
                    if failed is not None and failed["spec"].get("preemptionPolicy") != "Never":
                        self._failed_as[entry["by"]][entry["uid"]] = failed
                    self._attempts.append((entry, dict(self._assumed[entry["by"]])))
                case "books":
                    yield from self._judge_books(entry)
                case "activated":
                    self._activated[entry["by"]] = entry["at"], entry["uid"]
                    self._forget_tries(entry)
                case "lease":
                    if entry["holder"] != entry["by"]:
                        self._saw_another[entry["by"]] = entry["at"]
                case "log":
                    yield from _judge_log(entry)
                    self._note_failed_preemption(entry)
                case "error":
                    yield Broken("the scheduler goes on", entry["at"], entry["what"])
                case "calm":
                    self._calm_since = entry["at"]
                case "end":
                    yield from self._judge_end(entry)

    def _note(self, entry: Tree) -> None:
        self._kinds[entry["kind"]].note(entry["revision"], entry["key"], entry["object"])
        if entry["kind"] == "Lease" and entry["object"] is not None:
            self._leader.append((entry["at"], entry["object"]["spec"].get("holderIdentity", "")))
            sent = entry.get("sent", entry["at"])
            self._renewed[entry["by"]] = max(sent, self._renewed.get(entry["by"], 0.0))

    # Safety

    def _judge_write(self, entry: Tree) -> Iterator[Broken]:
        if not entry["by"].startswith("scheduler"):
            return
        if entry["kind"] == "Lease":
            yield from self._judge_lease(entry)
            return
        at, key = entry["at"], entry["key"]
        holder = self._leader_at(entry["sent"])
        if self._elects and holder not in (entry["by"], INTRUDER):
            yield Broken("only the leader writes", at, f"{entry['by']} wrote {key}, but {holder} leads")
        if self._renewed.get(entry["by"], 0.0) < self._saw_another.get(entry["by"], -1.0) < entry["sent"]:
            yield Broken("a process that saw another leader writes nothing", at, f"{entry['by']} wrote {key}")
        if self._elects and entry["sent"] - self._renewed.get(entry["by"], 0.0) >= RENEW_SECONDS:
            yield Broken("only a leader that renewed writes", at, f"{entry['by']} wrote {key}")
        if entry["kind"] == "Pod":
            yield from self._judge_pod_write(entry)
        elif entry["kind"] == "ResourceClaim":
            yield from self._judge_allocation(entry)
        elif entry["kind"] == "PersistentVolume":
            yield from self._judge_volume(entry)

    def _judge_lease(self, entry: Tree) -> Iterator[Broken]:
        """A lease is taken from another process after it was not renewed for its duration."""
        since, holder = self._leader[-1] if self._leader else (0.0, "")
        if holder not in ("", entry["by"]) and entry["sent"] - since < LEASE_SECONDS:
            yield Broken("a lease that is held is not taken", entry["at"], f"{entry['by']} from {holder}")

    def _forget_tries(self, activated: Tree) -> None:
        """A pod is activated by its name, as upstream: so is one that was made again under it."""
        for (by, uid), tried in list(self._tried.items()):
            if by == activated["by"] and tried["key"] == activated["key"]:
                del self._tried[by, uid]

    def _note_failed_eviction(self, entry: Tree) -> None:
        """As upstream, a preemptor whose victim cannot be marked or deleted is activated: one of those that
        are more important."""
        request, _, key = entry["what"].rpartition(" ")
        pods = self._kinds["Pod"].newest()
        victim = pods.get(key)
        if request not in EVICTING or victim is None:
            return
        if not node_of(victim) and _uid(victim) not in self._assumed[entry["by"]]:
            return
        for (by, uid), tried in list(self._tried.items()):
            pod = pods.get(tried["key"])
            if by == entry["by"] and pod is not None and _priority(pod) > _priority(victim):
                del self._tried[by, uid]

    def _note_failed_deallocation(self, entry: Tree) -> None:
        """A pod is activated if a claim of its own cannot be deallocated for it."""
        request, _, claim = entry["what"].rpartition(" ")
        if request == DEALLOCATING:
            self._forget_tries_of_users(entry["by"], claim)

    def _forget_tries_of_users(self, process: str, claim: str) -> None:
        for (by, uid), tried in list(self._tried.items()):
            pod = self._kinds["Pod"].newest().get(tried["key"])
            if by == process and pod is not None and claim in (device_claim_keys(pod) or ()):
                del self._tried[by, uid]

    def _note_doubt(self, entry: Tree) -> None:
        """A write to the claim of a placed pod gets no answer: the claim is read until it is known whether it
        was written."""
        request, _, claim = entry["what"].rpartition(" ")
        if entry["fault"] in ("dropped", "lost") and request.endswith("ResourceClaim"):
            for key, pod in self._kinds["Pod"].newest().items():
                if _uid(pod) in self._assumed[entry["by"]] and claim in (device_claim_keys(pod) or ()):
                    self._doubts.add((entry["by"], key))

    def _note_failed_preemption(self, entry: Tree) -> None:
        """The same where no request was sent: a scheduler that may not write logs for which pod it failed."""
        key = entry.get("about", "").rpartition(" ")[2]
        if entry["what"] == FAILED_PREEMPTION and NOT_LEADING in entry["cause"]:
            for (by, uid), tried in list(self._tried.items()):
                if tried["key"] == key:
                    del self._tried[by, uid]

    def _has_devices_of_its_own(self, undone: Tree) -> bool:
        """Whether a placement has devices that no claim says yet: the process alone knows of them."""
        pod = self._placed_as.get((undone["by"], undone["uid"]))
        claims = self._kinds["ResourceClaim"].newest()
        keys = (pod and device_claim_keys(pod)) or ()
        return any(key in claims and not is_allocated(claims[key]) for key in keys)

    def _has_volumes_of_its_own(self, undone: Tree) -> bool:
        """Whether a placement has volumes for claims that are not bound: the process alone knows of them."""
        pod = self._placed_as.get((undone["by"], undone["uid"]))
        claims = self._kinds["PersistentVolumeClaim"].newest()
        return any(key in claims and not is_bound(claims[key]) for key in (pod and claim_keys(pod)) or ())

    def _judge_pause(self, entry: Tree) -> Iterator[Broken]:
        """A rejected pod backs off, where it may not be popped early, and is gated while a plugin says so."""
        before = self._tried.pop((entry["by"], entry["uid"]), None)
        pod = self._seen_pods(entry).get(entry["key"])
        if pod is None or group_key(pod):
            return
        if labels(pod).get("license") == "g" and not self._was_licensed(pod, before, entry):
            yield Broken("a pod is gated without its license", entry["at"], entry["key"])
        patient = self._patient and not self._jumped
        doubt = entry["by"], entry["key"]
        if before is not None and patient and entry["at"] - before["at"] < BACKOFF_SECONDS:
            if doubt not in self._doubts:
                yield Broken("a rejected pod backs off", entry["at"], entry["key"])
            self._doubts.discard(doubt)

    def _was_licensed(self, pod: Tree, before: Tree | None, entry: Tree) -> bool:
        """Whether its license was valid at one moment since the last attempt."""
        since = 0 if before is None else before["seen"].get("License", 0)
        versions = self._kinds["License"].between(
            f"{namespace(pod)}/g", since, entry["seen"].get("License", 0)
        )
        return any(each is not None and each["spec"]["valid"] for each in versions)

    def _judge_pod_write(self, entry: Tree) -> Iterator[Broken]:
        old = self._kinds["Pod"].newest().get(entry["key"])
        new = entry["object"]
        at, key = entry["at"], entry["key"]
        if old is None:
            yield Broken("only users create pods", at, key)
            return
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
        was = self._placed_as.get((entry["by"], _uid(new)))
        if was is not None and labels(was) != labels(new):
            self._changed_on_the_way[_uid(new)] = was
        if before:
            yield Broken("a pod is bound once", at, f"{key} moves from {before} to {after}")
        decided = self._assumed[entry["by"]].get(_uid(new), "")
        if decided != after and not entry["late"]:
            yield Broken("a pod is bound where it was placed", at, f"{key} on {after}, not {decided!r}")
        if old["spec"].get("schedulingGates"):
            yield Broken("a gated pod is not bound", at, key)
        yield from self._judge_claims(entry, new)
        if group_key(new) and (entry["by"], _uid(new)) not in self._complete and not entry["late"]:
            groups = self._kinds["PodGroup"].newest()
            if min_count(new, groups) > 1:
                yield Broken("gangs are bound together", at, f"{key} is bound alone")

    def _judge_claims(self, entry: Tree, pod: Tree) -> Iterator[Broken]:
        """A pod is bound after its volumes and devices are its own."""
        at, key = entry["at"], entry["key"]
        claims = self._kinds["PersistentVolumeClaim"].newest()
        volumes = self._kinds["PersistentVolume"].newest()
        decision = self._decisions.get((entry["by"], _uid(pod)))
        nodes = [self._kinds["Node"].newest().get(node_of(pod))]
        if decision is not None:
            nodes.append(self._kinds["Node"].at(decision["seen"].get("Node", 0)).get(node_of(pod)))
        for claim_key in claim_keys(pod):
            claim = claims.get(claim_key)
            if claim is None or not is_bound(claim):
                yield Broken("a pod is bound with its volumes", at, f"{key} without {claim_key}")
                continue
            volume = volumes[claim["spec"]["volumeName"]]
            if not any(node is not None and volume_reaches(volume, node) for node in nodes):
                yield Broken("a pod is bound with its volumes", at, f"{key} away from {claim_key}")
        device_claims = self._kinds["ResourceClaim"].newest()
        for claim_key in device_claim_keys(pod) or ():
            claim = device_claims.get(claim_key, {})
            users = [each["uid"] for each in claim.get("status", {}).get("reservedFor", ())]
            if not is_allocated(claim) or _uid(pod) not in users:
                yield Broken("a pod is bound with its devices", at, f"{key} without {claim_key}")

    def _judge_allocation(self, entry: Tree) -> Iterator[Broken]:
        """No device is given twice, as far as the process could know."""
        at, key, new = entry["at"], entry["key"], entry["object"]
        claims = self._kinds["ResourceClaim"].newest()
        before = claims.get(key)
        if new is None or not is_allocated(new) or (before is not None and is_allocated(before)):
            return
        self._allocated_by[key] = entry["by"]
        seen = self._seen_claims(entry, key)
        ever = self._kinds["ResourceSlice"].ever()
        known = {
            (each["spec"]["driver"], each["spec"]["pool"]["name"], device["name"])
            for each in ever
            for device in each["spec"].get("devices", ())
        }
        for device in sorted(allocated(new)):
            if device not in known:
                yield Broken("only devices that exist are given", at, f"{device} to {key}")
            for other, claim in claims.items():
                if other == key or device not in allocated(claim):
                    continue
                known_by_itself = self._allocated_by.get(other) == entry["by"]
                if known_by_itself or device in allocated(seen.get(other, {})):
                    yield Broken("a device is given once", at, f"{device} to {key} and {other}")

    def _seen_claims(self, entry: Tree, key: str) -> Mapping[str, Tree]:
        """The device claims that the process had seen when it last placed a pod with this one."""
        pods = {_uid(pod): pod for pod in self._kinds["Pod"].newest().values()}
        revision = 0
        for (by, uid), decision in self._decisions.items():
            pod = pods.get(uid)
            if by == entry["by"] and pod is not None and key in (device_claim_keys(pod) or ()):
                revision = max(revision, decision["seen"].get("ResourceClaim", 0))
        return self._kinds["ResourceClaim"].at(revision)

    def _judge_volume(self, entry: Tree) -> Iterator[Broken]:
        old, new = self._kinds["PersistentVolume"].newest().get(entry["key"]), entry["object"]
        before = {} if old is None else old["spec"].get("claimRef", {})
        after = {} if new is None else new["spec"].get("claimRef", {})
        if before.get("uid") and before["uid"] != after.get("uid"):
            yield Broken("a volume is given once", entry["at"], entry["key"])

    def _note_gang(self, entry: Tree) -> None:
        """Remember whose gang has its minimum now: Permit lets all of them go at this moment.

        As upstream, pods on trial count, so that pods go that wait for them, whatever comes of the trial.
        """
        pods = self._seen_pods(entry)
        pod = pods.get(entry["key"])
        self._complete.discard((entry["by"], entry["uid"]))
        if pod is None or not (group := group_key(pod)):
            return
        assumed = self._assumed[entry["by"]]
        members = [each for each in pods.values() if group_key(each) == group]
        placed = [each for each in members if node_of(each) or _uid(each) in assumed]
        groups = self._kinds["PodGroup"].at(entry["seen"].get("PodGroup", 0))
        if len(placed) >= min_count(pod, groups):
            self._complete |= {(entry["by"], _uid(each)) for each in placed} - self._on_trial

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
        if entry["version"] != pod["metadata"]["resourceVersion"] and not (self._extender or group_key(pod)):
            # A cycle that waits for extenders, or for the rest of the group, goes on with what it began with.
            yield Broken("a pod is placed in its newest version", at, key)
        if node_of(pod):
            yield Broken("a pod is placed once", at, f"{key} is on {node_of(pod)}")
        if self._assumed[entry["by"]].get(entry["uid"]):
            yield Broken("a pod is placed once", at, f"{key} was placed before and not given up")
        if group_key(pod):
            groups = self._kinds["PodGroup"].at(entry["seen"].get("PodGroup", 0))
            if group_key(pod) not in groups:
                yield Broken("a pod without its group is not placed", at, key)
        if entry["trial"]:
            # Others of the group may count as gone already; the result is judged.
            return
        state = self._state(entry, pods, self._assumed[entry["by"]])
        if may_run(pod, node, state.with_pods(self._leaving(entry, pods))):
            return
        for rule in broken_rules(pod, node, state):
            yield Broken(rule, at, f"{key} on {node}")

    def _leaving(self, entry: Tree, pods: Mapping[str, Tree]) -> list[tuple[Tree, str]]:
        """Pods that the process saw being deleted, and gives up at this moment.

        As upstream, a pod that is deleted while it waits at Permit is taken off its node by its own binding
        cycle: until then it counts.
        """
        by = entry["by"]
        there = {_uid(pod) for pod in pods.values() if not _is_marked(pod)}
        found = []
        for place in range(self._place + 1, len(self._story)):
            later = self._story[place]
            if later["at"] > entry["at"]:
                break
            uid = later.get("uid", "")
            if (
                later["entry"] == "undone"
                and later["by"] == by
                and uid not in there
                and uid in self._assumed[by]
            ):
                found.append((self._placed_as[by, uid], self._assumed[by][uid]))
        return found

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
                # As upstream, one that changes while it is bound counts as it was.
                was = self._placed_as.get((entry["by"], _uid(pod)), pod)
                placed.append((was, assumed.get(_uid(pod), "")))
        others = lru_cache(lambda kind: self._kinds[kind].at(entry["seen"].get(kind, 0)))
        own = {uid: self._slices_seen.get((entry["by"], uid), 0) for uid in assumed}
        settled = {uid: self._settled.get((entry["by"], uid), frozenset()) for uid in assumed}
        # An extender whose failures are ignored refuses nodes, too, but need not have been asked.
        extended = self._extender == "strict" or (bool(self._extender) and entry["entry"] != "decision")
        return State(nodes, placed, others=others, own=own, settled=settled, extended=extended)

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
            if self._extender:
                # A cycle that waits for extenders goes on with what it began with.
                pod = self._kinds["Pod"].at(int(attempt["version"])).get(attempt["key"], pod)
            if _priority(pod) <= _priority(victim):
                reasons.append(f"{attempt['key']} is no more important")
                continue
            node = node_of(victim) or assumed.get(_uid(victim), "")
            state = self._state(attempt, pods, assumed)
            # As upstream, a pod that is deleted while it is bound keeps its place until its binding ends.
            known = {_uid(each) for each in pods.values()}
            full = state.with_pods(
                (self._placed_as[entry["by"], uid], where)
                for uid, where in assumed.items()
                if uid not in known and (entry["by"], uid) in self._placed_as
            )
            # The process alone knows which volume an unbound claim of a pod that it placed will have.
            is_free = not _shares_unbound_claim(pod, state, assumed) and not self._has_rivals(
                attempt, pod, pods
            )
            # The story does not say whether the binding of a deleted pod has ended. Counting that pod may
            # also help this one: a spread constraint's smallest domain has one pod more.
            doubts = (full.in_doubt(), state.in_doubt())
            if is_free and any(all(may_run(pod, name, each) for each in doubts) for name in full.nodes):
                reasons.append(f"{attempt['key']} fits without a victim")
                continue
            if self._breaks_budget_needlessly(victim, pod, full) and not self._has_rivals(attempt, pod, pods):
                reasons.append(f"{attempt['key']} could have kept the budget")
                continue
            # As upstream, preemption asks no extender that has no verb for it.
            left = state.without(node, partial(_is_less_important, than=pod))
            rules = [rule for rule in broken_rules(pod, node, left) if rule != "extender"]
            if any(_is_marked(other) for other in state.on(node)):
                # As upstream, a victim that is being deleted is taken away from sums that left it out.
                rules = [rule for rule in rules if rule != "topology spread"]
            if is_used_twice(pod, state):
                # As upstream, such a claim counts as used once, and is free without one of its users.
                rules = [rule for rule in rules if rule != "volumes"]
            if rules:
                reasons.append(f"{attempt['key']} does not fit even without all victims: {', '.join(rules)}")
                continue
            return
        yield Broken(
            "no victim without need", at, f"{key}: {'; '.join(dict.fromkeys(reasons)) or 'no attempt'}"
        )

    def _breaks_budget_needlessly(self, victim: Tree, pod: Tree, state: State) -> bool:
        """Whether the victim's budget allows nothing, and some node needs no eviction against a budget."""
        budgets = [
            each
            for each in state.others("PodDisruptionBudget").values()
            if each["spec"].get("selector", {}).get("matchLabels")
        ]

        def allowances(other: Tree) -> list[tuple[Tree, int]]:
            return [
                (each, each.get("status", {}).get("disruptionsAllowed", 0))
                for each in budgets
                if namespace(each) == namespace(other) and selects_pod(each["spec"]["selector"], other)
            ]

        if all(allowed > 0 for _budget, allowed in allowances(victim)):
            return False
        for name in state.nodes:
            less = [each for each in state.on(name) if _priority(each) < _priority(pod)]
            free = {
                _uid(each)
                for each in less
                if all(
                    sum(selects_pod(budget["spec"]["selector"], other) for other in less) <= allowed
                    for budget, allowed in allowances(each)
                )
            }
            if not free:
                continue
            without_all = state.without(name, partial(_is_less_important, than=pod))
            without_free = state.without(name, partial(_is_one_of, uids=free))
            if may_run(pod, name, without_all) and may_run(pod, name, without_free):
                return True
        return False

    def _has_rivals(self, attempt: Tree, pod: Tree, pods: Mapping[str, Tree]) -> bool:
        """Whether another pod, at least as important, is nominated, or failed before and so may be: the room
        that it waits for is not free."""
        return any(
            _uid(rival) != attempt["uid"]
            and not node_of(rival)
            and rival.get("status", {}).get("nominatedNodeName")
            and _priority(rival) >= _priority(pod)
            for rival in pods.values()
        ) or any(
            other["by"] == attempt["by"]
            and other["uid"] != attempt["uid"]
            and (rival := pods.get(other["key"])) is not None
            and not node_of(rival)
            and _priority(rival) >= _priority(pod)
            for other, _assumed in self._attempts
            if other["at"] <= attempt["at"]
        )

    def _judge_books(self, entry: Tree) -> Iterator[Broken]:
        pods = self._seen_pods(entry)
        books = self._books[entry["by"]]
        nodes = self._kinds["Node"].at(entry["seen"].get("Node", 0))
        for what in books.judge(entry, pods, nodes):
            yield Broken("what is kept is what was delivered", entry["at"], f"{entry['by']}: {what}")
        activated_at, activated = self._activated.pop(entry["by"], (-1.0, ""))
        for queue in ("backoff", "unschedulable") if activated_at == entry["at"] else ():
            if any(found["uid"] == activated for found in entry["queues"][queue]):
                yield Broken("an activated pod is active", entry["at"], f"{activated} is {queue}")
        if not entry["leads"]:
            return  # its queue waits, too
        for what in books.judge_time(entry, self._flush_seconds):
            yield Broken("no pod is left waiting", entry["at"], f"{entry['by']}: {what}")
        own = {each: entry["placed"][each] for each in entry["assumed"]}
        known = self._state(entry, pods, own)
        nominations = [
            (pod, where) for pod in pods.values() if (where := entry["nominations"].get(_uid(pod)))
        ]
        rivals_gone = self._rivals_gone(entry, pods)
        nominated = known.with_pods(nominations)
        states = [
            known,
            self._state(entry, pods, {}),
            nominated,
            nominated.in_doubt(),
            self._as_placed(known),
        ]

        def fits(pod: Tree, name: str) -> bool:
            if group_key(pod) or not has_license(pod, known):
                return False
            # As upstream, pods that are nominated for other nodes do not count while a node is tried.
            here = known.with_pods((other, where) for other, where in nominations if where == name)
            # As upstream, no event says that a pod is gone whose nomination was not written yet.
            last = self._last_failed.get(_uid(pod))
            before = [
                here.with_pod(other, name)
                for at, other in rivals_gone
                if (last is None or at >= last["at"]) and _priority(other) >= _priority(pod)
            ]
            # As upstream, no event says that a nominated pod was placed on another node.
            before += [
                here.with_pod(other, name)
                for other, where in known.placed
                if where not in ("", name)
                and _priority(other) >= _priority(pod)
                and self._was_nominated(other, name, entry)
            ]
            # As upstream, no event says that spread sums lose a pod that begins to be deleted.
            unmarked = (
                set()
                if last is None
                else {_uid(each) for each in self._seen_pods(last).values() if not _is_marked(each)}
            )
            return all(
                may_run(pod, name, each)
                and may_run(pod, name, each.with_marked_pods())
                and may_run(pod, name, each.with_marked_pods(only=unmarked))
                for each in (*states, here, *before)
            )

        def may_enter(key: str) -> bool:
            return key in pods and has_license(pods[key], known)

        for what in books.judge_waiting(entry, pods, nodes, fits=fits, may_enter=may_enter):
            yield Broken("no pod misses its event", entry["at"], f"{entry['by']}: {what}")

    def _was_nominated(self, pod: Tree, name: str, entry: Tree) -> bool:
        """Whether some version of the pod, as far as the process knows, was nominated for this node."""
        versions = self._kinds["Pod"].between(pod_key(pod), 0, entry["seen"].get("Pod", 0))
        return any(
            each is not None
            and _uid(each) == _uid(pod)
            and each.get("status", {}).get("nominatedNodeName") == name
            for each in versions
        )

    def _rivals_gone(self, entry: Tree, pods: Mapping[str, Tree]) -> Sequence[tuple[float, Tree]]:
        """When the process learned that a pod is gone which it may have nominated without its nomination
        being written, and the pod: one that failed and may preempt others."""
        by = entry["by"]
        present = {_uid(pod) for pod in pods.values()}
        gone = self._rivals[by]
        for uid, pod in list(self._failed_as[by].items()):
            if uid not in present:
                del self._failed_as[by][uid]
                versions = self._kinds["Pod"].between(pod_key(pod), 0, entry["seen"].get("Pod", 0))
                last = next(each for each in reversed(versions) if each is not None and _uid(each) == uid)
                if not last.get("status", {}).get("nominatedNodeName"):
                    gone.append((entry["at"], pod))
        return gone

    def _as_placed(self, state: State) -> State:
        """The same, with pods that changed while they were bound as they were before.

        As upstream, they count as they were until they are bound, and what is then reported is a pod with its
        new labels alone.
        """
        return state.replacing(self._changed_on_the_way)

    # Liveness

    def _judge_end(self, entry: Tree) -> Iterator[Broken]:
        at = entry["at"]
        pods = {key: pod for key, pod in self._kinds["Pod"].newest().items() if not has_ended(pod)}
        nodes = self._kinds["Node"].newest()
        state = State(
            nodes,
            [(pod, node_of(pod)) for pod in pods.values() if node_of(pod)],
            others=lambda kind: self._kinds[kind].newest(),
            extended=bool(self._extender),
        )
        # A pod that Permit keeps rejecting may be nominated, and so may pods of a gang that waits for others:
        # as upstream, their room is not free.
        without = state
        for pod in pods.values():
            nominated = pod.get("status", {}).get("nominatedNodeName", "")
            waits = not has_license(pod, without) or not gang_fits(pod, pods.values(), without)
            if nominated and not node_of(pod) and waits:
                state = state.with_pod(pod, nominated)
        ours = {key: pod for key, pod in pods.items() if pod["spec"]["schedulerName"] in entry["profiles"]}
        pending = {key: pod for key, pod in ours.items() if not node_of(pod)}
        for key, pod in sorted(pending.items()):
            if pod["spec"].get("schedulingGates") or _is_marked(pod) or not has_license(pod, state):
                continue
            last = self._last_failed.get(_uid(pod))
            failed = float("inf") if last is None else last["at"]
            is_late = self._calm_since < failed < at - REPORT_SECONDS and _uid(pod) not in self._mute
            if is_late and not _is_rejected(pod):
                yield Broken("a rejected pod is reported", at, key)
            if pod["spec"].get("resourceClaims") and failed <= self._devices_given_back:
                continue  # as upstream, devices that were not written yet are given back without an event
            if claim_keys(pod) and failed <= self._volumes_given_back:
                continue  # as upstream, so are volumes of claims that are not bound yet
            if terms(pod, "podAffinity") and not seeks_company(pod, state) and self._sought_company(pod):
                continue  # as upstream, no event says that the last pod is gone that it had to be near
            both = state, self._as_placed(state)
            fitting = [name for name in sorted(nodes) if all(may_run(pod, name, each) for each in both)]
            if fitting and gang_fits(pod, pods.values(), state):
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

    def _sought_company(self, pod: Tree) -> bool:
        """Whether it had to be near others when it was last found to fit nowhere."""
        for attempt, assumed in reversed(self._attempts):
            if attempt["uid"] == _uid(pod):
                return seeks_company(pod, self._state(attempt, self._seen_pods(attempt), assumed))
        return False


def _judge_log(entry: Tree) -> Iterator[Broken]:
    cause = entry["cause"]
    is_expected = "of the universe" in cause or SHUTTING_DOWN in cause
    is_expected |= any(f"{name}(" in cause for name in EXPECTED_CAUSES)
    if entry["what"] not in EXPECTED_LOGS and not is_expected:
        yield Broken("the scheduler logs no defect", entry["at"], f"{entry['what']} {entry['cause']}")


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


def _is_one_of(pod: Tree, *, uids: Set[str]) -> bool:
    return _uid(pod) in uids


def _shares_unbound_claim(pod: Tree, state: State, assumed: Mapping[str, str]) -> bool:
    """Whether a pod that is placed and not bound uses a claim of the pod that is not bound."""
    claims = state.others("PersistentVolumeClaim")
    own = {key for key in claim_keys(pod) if key in claims and not is_bound(claims[key])}
    return any(own & set(claim_keys(other)) for other, _node in state.placed if _uid(other) in assumed)


def _is_less_important(pod: Tree, *, than: Tree) -> bool:
    return _priority(pod) < _priority(than)
