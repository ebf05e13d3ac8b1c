"""What a plugin can use besides its arguments: the scheduler's components.

In: components, from the composition root. Out: one `Handle`, valid for the plugin's lifetime.
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
    """Moves pods to activeQ without an event."""

    def activate(self, pods: Mapping[str, Pod]) -> None:
        """Retry these pods, by namespace/name, as soon as possible."""
        ...


class PodEvent(NamedTuple):
    """A Kubernetes event about a pod."""

    regarding: Pod
    """The pod that the event is about."""
    reason: str
    """The reason, in CamelCase, for programs."""
    action: str
    """The action, in CamelCase."""
    note: str
    """The message for users."""
    warning: bool = False
    """Whether its type is Warning instead of Normal."""
    related: Any = None
    """A related object, or None."""


class EventRecorder(Protocol):
    """Writes Kubernetes events without blocking the caller."""

    def record(self, event: PodEvent) -> object:
        """Write the event, or add it to the series of an equal recent event.

        The return value is for the scheduler only.
        """
        ...


class Spawner(Protocol):
    """Runs coroutines in the scheduler's task group."""

    def __call__(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run the coroutine until it ends; `name` is used in the log."""
        ...


@dataclass(slots=True)
class Handle:
    """Gives a plugin access to the scheduler. The cluster table and the API are not synchronized."""

    api: Api
    """Reads and writes objects. Its verbs are `async`: use them in `pre_bind`, `bind`, and in coroutines
    passed to `spawn`."""
    stores: Stores
    """The last known version of every object of the watched kinds."""
    cluster: ClusterTable
    """The cluster table: nodes and placed pods."""
    clock: Clock
    """The clock, virtual in tests. Do not use another one."""
    feature_gates: FeatureGates
    """The feature gates: `enabled("Name")` returns whether a feature is on."""
    waiting_pods: WaitingPods
    """Pods that Permit holds."""
    nominator: Nominator
    """Nominated nodes of pending pods."""
    activator: Activator
    """Moves pods to activeQ."""
    recorder: EventRecorder
    """Writes Kubernetes events."""
    spawn: Spawner
    """Runs coroutines. A coroutine that the constructor or `start` spawns begins when the scheduler runs, and
    is cancelled after `close`; one spawned later may end by itself."""
    metrics: SchedulerMetrics
    """The scheduler's own metrics."""
    extenders: Extenders = NO_EXTENDERS
    """The HTTP extenders; only coroutines can call them."""
    rng: random.Random = field(default_factory=random.Random)
    """The random generator, seeded in simulations. Do not use another one."""
    shared: SharedObjects = field(default_factory=SharedObjects)
    """Objects shared by plugins of all profiles: `shared.of(Ledger, make)` returns the same ledger for all of
    them, also after a reload."""
    profile_name: str = ""
    """The scheduler name of this plugin's profile."""
    runner: Runner | None = field(default=None, repr=False)
    """The profile's runner, for plugins that evaluate what-ifs (preemption)."""
