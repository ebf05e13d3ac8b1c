"""What a plugin may use besides its arguments: the scheduler, seen from inside.

In: the parts the composition root wires. Out: one `Handle`, valid for the plugin's lifetime.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kuberth.api.core import Pod
from kuberth.clock import Clock
from kuberth.cluster.table import ClusterTable
from kuberth.config.feature_gates import FeatureGates
from kuberth.framework.nominator import Nominator
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.informers.store import Stores
from kuberth.observe.metrics import SchedulerMetrics

if TYPE_CHECKING:
    from kuberth.client.protocol import Api
    from kuberth.framework.runner import Runner


class Activator(Protocol):
    """Brings pods back to the active queue without an event."""

    def activate(self, pods: Mapping[str, Pod]) -> None: ...


class EventRecorder(Protocol):
    """Writes Kubernetes events without ever blocking the caller."""

    def record(
        self,
        regarding: Pod,
        *,
        reason: str,
        action: str,
        note: str,
        warning: bool = False,
        related: Any = None,
    ) -> None: ...


class Spawner(Protocol):
    """Runs work that awaits, owned by the scheduler's task group."""

    def __call__(self, work: Coroutine[Any, Any, None], *, name: str) -> None: ...


@dataclass(slots=True)
class Handle:
    """Everything a plugin can reach. The cluster table and the API are not in step with each other."""

    api: Api
    stores: Stores
    cluster: ClusterTable
    clock: Clock
    feature_gates: FeatureGates
    waiting_pods: WaitingPods
    nominator: Nominator
    activator: Activator
    recorder: EventRecorder
    spawn: Spawner
    metrics: SchedulerMetrics
    profile_name: str = ""
    runner: Runner | None = field(default=None, repr=False)
    """The profile's own runner, for plugins that ask others what if (preemption)."""
