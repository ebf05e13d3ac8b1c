"""The parts of a universe: plain data that `drawing` draws, `playing` plays and `shrinking` takes away from.

Steps name objects that may be gone when their turn comes; they do nothing then, so that any part can be left
out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

Tree = dict[str, Any]

SPAN_SECONDS: Final = 90.0
"""Users and faults act within this time."""
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"


@dataclass(frozen=True)
class Step:
    """Something that users, kubelets or node controllers do."""

    at: float
    verb: str
    name: str = ""
    tree: Tree = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """A fault of one kind for some time."""

    kind: str
    start: float
    end: float
    share: float = 1.0
    """How often it happens while it lasts."""
    subject: str = ""
    """A kind of object or an extension point; empty: all."""
    replica: str = ""
    """Empty: all."""
    outcomes: tuple[str, ...] = ()

    def concerns(self, by: str) -> bool:
        return by.startswith(f"scheduler-{self.replica}")


@dataclass(frozen=True)
class Universe:
    """One cluster, its users and its faults."""

    seed: int
    nodes: tuple[Tree, ...]
    steps: tuple[Step, ...]
    faults: tuple[Fault, ...]
    objects: tuple[Tree, ...] = ()
    """What is there from the beginning besides nodes, each with its kind."""
    replicas: int = 1
    posts: bool = False
    """Whether the network takes posts."""
    permits: bool = False
    """Whether a plugin holds some pods at Permit."""
    profiles: int = 1
    activates: bool = True
    """Whether plugins without events bring back the pods that they rejected; otherwise the queue has to."""
    max_unschedulable_seconds: float = 300.0
    percentage_of_nodes_to_score: int = 0
    calm_seconds: float = 240.0
    gangs: bool = False
    licenses: bool = False
    extender: str = ""
    """Empty, "strict" or "ignorable"."""
    patient: bool = False
    """Whether rejected pods wait for the end of their backoff even if the queue has no other pod."""
    work_at_once: int = 0
    """How much work an event of the queue causes before others get their turn; 0: as in production."""
    skewed: bool = False
    """Whether processes disagree about the time."""
