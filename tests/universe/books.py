"""The rules of what a scheduler keeps, for the judge: it is what the API server has delivered.

In: an entry of the story with the queue, the table and the nominations of a process at one moment, and the
objects that were delivered to it by then. Out: what is missing, left over, old or kept twice. Nothing here is
imported from the scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tests.universe.trees import Tree

EVERY_SECONDS: Final = 1.0
"""How often it is judged whether pods that wait fit."""
PATIENCE_SECONDS: Final = 2.5
"""What is on its way for longer is stuck."""
ACTIVE_SECONDS: Final = 60.0
"""Bindings that hang keep others from being tried for a while."""
BACKOFF_SECONDS: Final = 12.0
"""The longest backoff, and what is lost by whole seconds."""
FLUSH_SECONDS: Final = 32.0
"""How often pods are looked for that have waited too long, and what is lost by whole seconds."""
FOREIGN: Final = ("Failing", "Holding", "Sealed")
"""Plugins whose rejections no rule repeats."""
PARTIAL: Final = (
    "DynamicResources",
    "InterPodAffinity",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeRestrictions",
)
"""As upstream, these have no event for all that helps: devices and volumes that a failed attempt gives back,
nodes whose new labels take them out of other pods' anti-affinity, nodes without a CSINode, and claims whose
users were on a node that is gone."""
WAITS: Final = "unschedulable"


class Books:
    """What one process kept when it was last looked at."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, ...], float] = {}
        """Since when something has been odd, without a break."""
        self._judged_at = -EVERY_SECONDS

    def judge(self, entry: Tree, pods: Mapping[str, Tree], nodes: Mapping[str, Tree]) -> Iterator[str]:
        """What is not as it was delivered."""
        ours = {uid(pod): pod for pod in pods.values() if pod["spec"]["schedulerName"] in entry["profiles"]}
        pending = {each: pod for each, pod in ours.items() if not pod["spec"].get("nodeName")}
        queued = [(queue, pod) for queue, waiting in entry["queues"].items() for pod in waiting]
        yield from self._judge_queue(entry, pending, queued)
        yield from self._judge_table(entry, {uid(pod): pod for pod in pods.values()}, nodes)
        known = {pod["uid"] for _room, pod in queued} | set(entry["in flight"]) | set(entry["assumed"])
        for each, pod in pending.items():
            if each not in known and not is_marked(pod):
                yield f"{key(pod)} is forgotten"
        if leftover := sorted(set(entry["nominations"]) - set(pending)):
            yield f"{', '.join(leftover)} is nominated and not pending"
        for found in (pod for _room, pod in queued if pod["attempts"] == 0):
            # Attempts change nominations before the API server knows.
            wanted = pending.get(found["uid"], {}).get("status", {}).get("nominatedNodeName")
            if wanted and entry["nominations"].get(found["uid"]) != wanted:
                yield f"{found['key']} is nominated for {wanted}, which is not kept"
        waiting = {pod["uid"] for queue, pod in queued if queue in (WAITS, "gated")}
        if leftover := sorted(set(entry["filed"]) - waiting):
            yield f"{', '.join(leftover)} is filed and does not wait"

    def _judge_queue(
        self, entry: Tree, pending: Mapping[str, Tree], queued: list[tuple[str, Tree]]
    ) -> Iterator[str]:
        for name, number in Counter(pod["key"] for _room, pod in queued).items():
            if number > 1:
                yield f"{name} is in the queue {number} times"
        for queue, found in queued:
            pod = pending.get(found["uid"])
            if pod is None:
                yield f"{found['key']} is in the queue and not pending"
                continue
            if found["version"] != pod["metadata"]["resourceVersion"]:
                yield f"{found['key']} is in the queue in an old version"
            if found["uid"] in entry["in flight"]:
                yield f"{found['key']} is in the queue and in flight"
            if found["uid"] in entry["assumed"]:
                yield f"{found['key']} is in the queue and assumed"
            gated = bool(pod["spec"].get("schedulingGates"))
            if gated and queue != "gated":
                yield f"{found['key']} has gates and is {queue}"
            if not gated and found["gate"] == "SchedulingGates":
                yield f"{found['key']} has no gates and is gated"

    def _judge_table(self, entry: Tree, pods: Mapping[str, Tree], nodes: Mapping[str, Tree]) -> Iterator[str]:
        seen = {name: node["metadata"]["resourceVersion"] for name, node in nodes.items()}
        if entry["nodes"] != seen:
            yield f"nodes {sorted(set(entry['nodes'].items()) ^ set(seen.items()))} differ"
        placed = {each: pod["spec"]["nodeName"] for each, pod in pods.items() if pod["spec"].get("nodeName")}
        confirmed = {each: where for each, where in entry["placed"].items() if each not in entry["assumed"]}
        if confirmed != placed:
            yield f"pods {sorted(set(confirmed.items()) ^ set(placed.items()))} differ"
        for each, version in entry["versions"].items():
            if each in placed and version != pods[each]["metadata"]["resourceVersion"]:
                yield f"{key(pods[each])} is placed in an old version"
        for each in entry["assumed"]:
            gone = each not in pods or is_marked(pods[each])
            if self._lasts(entry["at"], gone, "assumed", each):
                yield f"{each} is assumed and gone"

    def judge_time(self, entry: Tree, flush_seconds: float) -> Iterator[str]:
        """Pods that stay in one queue of the queue for too long."""
        for queue, seconds in (
            ("active", ACTIVE_SECONDS),
            ("backoff", BACKOFF_SECONDS),
            (WAITS, flush_seconds),
        ):
            limit = seconds + FLUSH_SECONDS if queue == WAITS else seconds
            odd = {(queue, found["uid"], str(found["attempts"])) for found in entry["queues"][queue]}
            for what in [what for what in self._since if what[0] == queue and what not in odd]:
                del self._since[what]
            for what in sorted(odd):
                if self._lasts(entry["at"], True, *what, limit=limit):
                    yield f"{what[1]} has been {queue} for {limit:g} s"

    def judge_waiting(
        self,
        entry: Tree,
        pods: Mapping[str, Tree],
        nodes: Mapping[str, Tree],
        *,
        fits: Callable[[Tree, str], bool],
        may_enter: Callable[[str], bool],
    ) -> Iterator[str]:
        """Pods that wait for an event although they fit: it came and was missed."""
        if 0.0 <= entry["at"] - self._judged_at < EVERY_SECONDS:
            return
        self._judged_at = entry["at"]
        for found in entry["queues"]["gated"]:
            is_open = found["gate"] == "Licensing" and may_enter(found["key"])
            if self._lasts(entry["at"], is_open, "gated", found["uid"], str(found["attempts"])):
                yield f"{found['key']} is gated without reason"
        for found in entry["queues"][WAITS]:
            pod = pods.get(found["key"])
            judged = pod is not None and found["why"] and not set(found["why"]) & {*FOREIGN, *PARTIAL}
            what = ("waits", found["uid"], str(found["attempts"]))
            if not judged:
                self._since.pop(what, None)
                continue
            assert pod is not None
            where = next((name for name in sorted(nodes) if fits(pod, name)), "")
            if self._lasts(entry["at"], bool(where), *what):
                yield f"{found['key']} waits after {', '.join(found['why'])} and fits on {where}"

    def _lasts(self, at: float, is_odd: bool, *what: str, limit: float = PATIENCE_SECONDS) -> bool:
        if not is_odd:
            self._since.pop(what, None)
            return False
        return at - self._since.setdefault(what, at) > limit


def uid(obj: Tree) -> str:
    return str(obj["metadata"]["uid"])


def key(pod: Tree) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def is_marked(pod: Tree) -> bool:
    return "deletionTimestamp" in pod["metadata"]
