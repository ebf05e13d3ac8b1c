"""The results of a simulated run, identical for the same seed.

Times are virtual, in seconds after the start; nothing depends on the speed of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kuberth.errors import ConfigError
from kuberth.simulation.tables import Table
from kuberth.text.figures import duration, percentile

VERSION: Final = "kuberth.dev/simulation/v1"


class Waits(msgspec.Struct, frozen=True):
    """How long pods waited for a node, in seconds.

    A pod without a node counts with its wait so far, so with such pods all figures are lower bounds.
    """

    pods: int
    """The number of pods with a node."""
    mean: float
    p50: float
    p90: float
    p99: float
    longest: float
    still_waiting: int
    """Pods without a node when the run ended."""


class Sample(msgspec.Struct, frozen=True):
    """The cluster at one moment."""

    at: float
    utilisation: dict[str, float]
    """Used share of each resource."""
    fragmentation: float
    """Share of the free capacity that is on nodes where the workload's pods do not fit."""
    fairness: float
    """Jain's index over tenants' dominant shares: 1 is even, 1/n is all for one of n."""
    running: int
    waiting: int


class Attempts(msgspec.Struct, frozen=True):
    """Scheduling attempts by their result."""

    scheduled: int
    unschedulable: int
    error: int

    @property
    def wasted(self) -> float:
        """The share of attempts that ended without a node."""
        total = self.scheduled + self.unschedulable + self.error
        return (total - self.scheduled) / total if total else 0.0


class PodCounts(msgspec.Struct, frozen=True):
    """The number of pods by what happened to them."""

    arrived: int
    placed: int
    finished: int
    preempted: int
    """Pods that were preempted; each is recreated, as its controller would."""
    waiting: int


class Reason(msgspec.Struct, frozen=True):
    """Why pods were rejected."""

    text: str
    pods: int
    """How many pods had this reason; a pod counts again after six minutes."""


class StoryLine(msgspec.Struct, frozen=True, array_like=True):
    """An event in the life of a pod."""

    at: float
    """Seconds after the start."""
    what: str
    """`created`, `rejected`, `bound`, `preempted`, `evicted`, `finished` or `deleted`."""
    detail: str
    """The node, or the message of the FailedScheduling event."""


class PodRecord(msgspec.Struct, frozen=True):
    """A pod of the run."""

    name: str
    tenant: str
    priority: int
    requests: dict[str, float]
    """Amounts: CPUs, bytes, devices."""
    story: list[StoryLine]

    def at(self, what: str) -> float | None:
        """The time of each first event."""
        return next((line.at for line in self.story if line.what == what), None)

    @property
    def node(self) -> str:
        """The node to which it was bound, or an empty string."""
        return next((line.detail for line in self.story if line.what == "bound"), "")

    @property
    def state(self) -> str:
        """`waiting`, `running`, or how the pod ended."""
        last = next((line.what for line in reversed(self.story) if line.what in _STATES), "created")
        return _STATES.get(last, "waiting")


_ENDS: Final = ("preempted", "evicted", "finished", "deleted")
_STATES: Final = {"bound": "running", **{end: end for end in _ENDS}}


class NodeRecord(msgspec.Struct, frozen=True):
    """A node of the run."""

    name: str
    capacity: dict[str, float]
    """CPUs, bytes, devices."""
    joined: float
    left: float | None


class Records(msgspec.Struct, frozen=True):
    """Every pod and every node of a run."""

    pods: list[PodRecord]
    nodes: list[NodeRecord]
    end: float
    """When the run ended, in seconds after the start."""


class Outcome(msgspec.Struct, frozen=True):
    """The result of one run."""

    version: str
    name: str
    seed: int
    nodes: int
    seconds: float
    """Time from the start to the last change."""
    pods: PodCounts
    waits: Waits
    waits_by_priority: dict[str, Waits]
    waits_by_tenant: dict[str, Waits]
    utilisation: dict[str, float]
    """Mean until the last arrival, by resource."""
    drain_utilisation: dict[str, float]
    """Mean from the last arrival to the end, by resource; empty if the run ends with an arrival."""
    arrival_seconds: float
    """Time of the last arrival; of the end, if all pods arrive at the start."""
    fragmentation: float
    fairness: float
    attempts: Attempts
    attempts_wasted: float
    reasons: list[Reason]
    samples: list[Sample]
    interrupted: bool = False
    """Whether the run was stopped before its end: the figures cover the time until then."""
    nodes_mean: float = 0.0
    """Mean number of nodes until the last arrival."""
    nodes_used: float = 0.0
    """Mean number of nodes with pods until the last arrival."""
    records: Records | msgspec.UnsetType = msgspec.UNSET
    """Pods and nodes, if the scenario requested them; not part of reports."""

    def __repr__(self) -> str:
        """One line, since a notebook prints it: all samples and records would fill pages."""
        placed = f"{self.pods.placed} of {self.pods.arrived} pods placed, {self.pods.waiting} waiting"
        return f"<Outcome {self.name!r}, seed {self.seed}: {placed}, mean wait {duration(self.waits.mean)}>"

    def pods_table(self) -> Table:
        """A row for each pod, in the order of their creation."""
        recorded = self._recorded()
        return Table(_pod_row(pod, recorded.end) for pod in recorded.pods)

    def nodes_table(self) -> Table:
        """A row for each node: when it existed, the pods that it ran, and its mean utilization."""
        recorded = self._recorded()
        runs: dict[str, list[PodRecord]] = {}
        for pod in recorded.pods:
            runs.setdefault(pod.node, []).append(pod)
        return Table(_node_row(node, runs.get(node.name, ()), recorded.end) for node in recorded.nodes)

    def waits_table(self) -> Table:
        """A row for all pods, for each priority and for each tenant."""
        groups = [("all", "", self.waits)]
        groups += (("priority", name, each) for name, each in self.waits_by_priority.items())
        groups += (("tenant", name, each) for name, each in self.waits_by_tenant.items())
        return Table(
            {"of": kind, "name": name, **msgspec.structs.asdict(each)} for kind, name, each in groups
        )

    def samples_table(self) -> Table:
        """A row for each sample of the cluster over time."""
        return Table(
            {
                **{name: value for name, value in msgspec.structs.asdict(each).items() if name != _USED},
                **{f"{_USED} {resource}": share for resource, share in each.utilisation.items()},
            }
            for each in self.samples
        )

    def story(self, pod: str, *, tenant: str | None = None) -> list[StoryLine]:
        """What happened to a pod. `tenant` is needed if several tenants have a pod with this name.

        ConfigError if there is no such pod, or several.
        """
        found = [each for each in self._recorded().pods if each.name == pod and tenant in (None, each.tenant)]
        if not found:
            raise ConfigError(f"there was no pod {pod}" + (f" in {tenant}" if tenant else ""))
        if len(found) > 1:
            tenants = ", ".join(each.tenant for each in found)
            raise ConfigError(f"several tenants have a pod {pod}: pass tenant=, one of {tenants}")
        return found[0].story

    def _recorded(self) -> Records:
        if isinstance(self.records, msgspec.UnsetType):
            raise ConfigError("the run kept no records of its pods; simulate a scenario with records=True")
        return self.records


_USED: Final = "utilisation"


def _pod_row(pod: PodRecord, end: float) -> dict[str, Any]:
    came, bound = pod.at("created") or 0.0, pod.at("bound")
    return {
        "tenant": pod.tenant,
        "name": pod.name,
        "priority": pod.priority,
        **pod.requests,
        "arrival": came,
        "wait": rounded((end if bound is None else bound) - came),
        "node": pod.node,
        "bound": bound,
        "ended": _end_of(pod),
        "state": pod.state,
        "rejections": sum(line.what == "rejected" for line in pod.story),
    }


def _end_of(pod: PodRecord) -> float | None:
    return next((at for end in _ENDS if (at := pod.at(end)) is not None), None)


def _node_row(node: NodeRecord, pods: Sequence[PodRecord], end: float) -> dict[str, Any]:
    left = end if node.left is None else node.left
    taken = dict.fromkeys(node.capacity, 0.0)
    for pod in pods:
        ended = _end_of(pod)
        seconds = (left if ended is None else ended) - (pod.at("bound") or 0.0)
        for name, number in pod.requests.items():
            if name in taken:
                taken[name] += number * seconds
    seconds = left - node.joined
    return {
        "name": node.name,
        "joined": node.joined,
        "left": node.left,
        "pods": len(pods),
        **{
            f"{_USED} {name}": rounded(taken[name] / (number * seconds)) if number and seconds else 0.0
            for name, number in node.capacity.items()
        },
    }


def waits(seconds: Sequence[float], *, still_waiting: Sequence[float] = ()) -> Waits:
    """The waits of pods with a node, and the waits so far of pending pods."""
    ordered = sorted((*seconds, *still_waiting))
    if not ordered:
        return Waits(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
    return Waits(
        len(seconds),
        rounded(math.fsum(ordered) / len(ordered)),
        rounded(percentile(ordered, 50)),
        rounded(percentile(ordered, 90)),
        rounded(percentile(ordered, 99)),
        rounded(ordered[-1]),
        len(still_waiting),
    )


def rounded(number: float) -> float:
    """Rounded to a millionth: sums of floats differ in their last bits between machines."""
    return round(number, 6) + 0.0
