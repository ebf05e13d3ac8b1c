"""What a plugin may use besides its arguments: the scheduler, seen from inside.

In: the parts the composition root wires. Out: one `Handle`, valid for the plugin's lifetime.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kuberth.api.core import Pod
from kuberth.clock import Clock
from kuberth.cluster.table import ClusterTable
from kuberth.config.feature_gates import FeatureGates
from kuberth.extenders import NO_EXTENDERS, Extenders
from kuberth.framework.nominator import Nominator
from kuberth.framework.sharing import SharedObjects
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.informers.store import Stores
from kuberth.observe.metrics import SchedulerMetrics

if TYPE_CHECKING:
    from kuberth.client.protocol import Api
    from kuberth.framework.runner import Runner


class Activator(Protocol):
    """Brings pods back to the active queue without an event."""

    def activate(self, pods: Mapping[str, Pod]) -> None:
        """Try these pods, by namespace/name, as soon as possible."""
        ...


class PodEvent(NamedTuple):
    """A Kubernetes event about a pod."""

    regarding: Pod
    """The pod."""
    reason: str
    """Why, in CamelCase, for programs."""
    action: str
    """What was being done, in CamelCase."""
    note: str
    """What happened, for people."""
    warning: bool = False
    """Whether its type is Warning instead of Normal."""
    related: Any = None
    """Another object that the event has to do with, or None."""


class EventRecorder(Protocol):
    """Writes Kubernetes events without ever blocking the caller."""

    def record(self, event: PodEvent) -> object:
        """Write the event, or add to its series if the same one was written not long ago.

        What is returned is for the scheduler alone.
        """
        ...


class Spawner(Protocol):
    """Runs work that awaits, owned by the scheduler's task group."""

    def __call__(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run the coroutine until it ends; `name` is for the log."""
        ...


@dataclass(slots=True)
class Handle:
    """Everything a plugin can reach. The cluster table and the API are not in step with each other."""

    api: Api
    """Reads and writes objects. Its verbs are `async`: for `pre_bind`, `bind`, and work given to `spawn`."""
    stores: Stores
    """The last known version of every object of the kinds that are watched."""
    cluster: ClusterTable
    """The cluster table: nodes and placed pods."""
    clock: Clock
    """The time; virtual in tests. Never read another clock."""
    feature_gates: FeatureGates
    """`enabled("Name")` says whether a feature is on."""
    waiting_pods: WaitingPods
    """Pods that Permit holds."""
    nominator: Nominator
    """Nominated nodes of pending pods."""
    activator: Activator
    """Brings pods back to the active queue."""
    recorder: EventRecorder
    """Writes Kubernetes events."""
    spawn: Spawner
    """Runs work that awaits. Before the scheduler runs, the work is kept until then. Work that the
    constructor or `start` spawns is cancelled after `close`; work spawned later may end by itself."""
    metrics: SchedulerMetrics
    """The scheduler's own metrics."""
    extenders: Extenders = NO_EXTENDERS
    """The HTTP extenders, which only what awaits can ask."""
    rng: random.Random = field(default_factory=random.Random)
    """Random numbers; seeded in simulations. Never use another generator."""
    shared: SharedObjects = field(default_factory=SharedObjects)
    """What plugins of all profiles share: `shared.of(Ledger, make)` is the same ledger for all of them, and
    for those that another configuration brings later."""
    profile_name: str = ""
    """The scheduler name of the profile that this plugin is part of."""
    runner: Runner | None = field(default=None, repr=False)
    """The profile's own runner, for plugins that ask others what if (preemption)."""
