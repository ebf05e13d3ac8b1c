"""What a pod needs from a node, and one thing that a node lacks for it.

In: a pod. Out: `PodNeeds`, computed once for all nodes, and the type `Shortcoming`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kuberth.api.core import Pod
from kuberth.api.pod_resources import EPHEMERAL_STORAGE
from kuberth.cluster.pod_info import PodInfo
from kuberth.explaining.devices import DeviceCounts
from kuberth.explaining.edits import Edit

Remedy = tuple[Edit, ...]
"""Changes that are made together."""


@dataclass(frozen=True, slots=True)
class Shortcoming:
    """One thing that a node lacks."""

    plugin: str
    text: str
    remedies: tuple[Remedy, ...] = ()
    """Changes of which each may fix it, the least disruptive first."""
    distance: float = 1.0
    """How much is missing: a share of the request, or 1 if it has no amount."""
    deletion_helps: bool = False
    """Whether deleting pods of the node may help."""
    new_helps: bool = False
    """Whether an empty new node of the same shape would have it."""
    kind: str = ""
    """The kind: a resource, or "" for the plugin. Shortcomings of the same kind have the same kind of fix."""
    pattern: str = ""
    """The text without amounts and names of other objects, where it has some."""
    short: int = 0
    """The missing amount, in the units of the columns."""
    holder: str = ""
    """The only pod (namespace/name) whose deletion helps."""
    never: bool = False
    """Whether even the empty node lacks it."""


Domains = Mapping[str, Sequence[PodInfo]]
"""The pods on the nodes with each value of a topology key. Values without pods are included."""


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """What a pod needs from a node, computed once for all nodes."""

    info: PodInfo
    compares_taints: bool = False
    """Feature gate TaintTolerationComparisonOperators."""
    devices: Callable[[], DeviceCounts | None] = lambda: None
    """Returns the counts of devices, which few pods need."""
    domains: dict[str, Domains] = field(default_factory=dict, compare=False)
    """Cache by topology key: the pods of each of its values."""
    shortages: dict[tuple[str, str, int, bool], Shortcoming] = field(default_factory=dict, compare=False)
    """Cache by plugin, resource, missing amount, and whether an empty node would be large enough."""

    amounts: Mapping[str, int] = field(init=False)
    """Requests by resource, in the units of the columns."""

    def __post_init__(self) -> None:
        own = self.info.request.amounts()
        own[EPHEMERAL_STORAGE] = own.pop(EPHEMERAL_STORAGE)  # last
        object.__setattr__(self, "amounts", {name: amount for name, amount in own.items() if amount > 0})

    @property
    def pod(self) -> Pod:
        return self.info.pod
