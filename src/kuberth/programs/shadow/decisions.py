"""Decisions of the real scheduler compared with Kuberth's, and the report about them.

In: decisions, one after the other. Out: each as a tree for JSON, and a report: how often the two agree, what
explains differences, how long pods waited and how long Kuberth's decisions took.
"""

from __future__ import annotations

import enum
from array import array
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kuberth.text.figures import percentile

KEPT_DIFFERENCES: Final = 1000
"""How many of the last unexplained differences are kept for the final report."""


class Agreement(enum.StrEnum):
    """The result of a comparison of the two decisions about a pod."""

    SAME = "same node"
    """The real scheduler chose the only node with the best score."""
    EQUAL = "equal score"
    """The real scheduler chose one of several best nodes; the choice among them is random."""
    OTHER = "other node"
    """Another node has a better score, or the chosen one is not feasible."""
    NOT_PLACED = "placed there, rejected here"
    """No node is feasible in Kuberth."""
    SAME_VERDICT = "rejected by both"
    NOT_REJECTED = "rejected there, placed here"
    FAILED = "failed here"
    """A plugin failed, so there is no decision to compare."""


AGREEING: Final = frozenset((Agreement.SAME, Agreement.EQUAL, Agreement.SAME_VERDICT))


class DifferenceCause(enum.StrEnum):
    """The cause that explains a difference."""

    BINDINGS = "bindings"
    """The two agree if some pods, whose bindings or ends were seen shortly before or after this decision, are
    counted or not counted instead: the real scheduler knew of them earlier, or not yet."""
    NODES = "nodes"
    """The nodes that cause the difference have all changed shortly before."""
    SAMPLING = "sampling"
    """The real scheduler samples nodes, and may have skipped the better ones."""


class DifferenceExplanation(msgspec.Struct, frozen=True):
    cause: DifferenceCause
    text: str
    pods: tuple[str, ...] = ()
    """namespace/name of the pods that cause the difference."""
    nodes: tuple[str, ...] = ()


class ShadowDecision(msgspec.Struct, frozen=True, rename="camel"):
    """A decision of the real scheduler, and Kuberth's decision for the same pod."""

    pod: str
    """namespace/name."""
    agreement: Agreement
    node: str = ""
    """The node that the real scheduler chose; "" if it rejected the pod."""
    own_node: str = ""
    """The node that Kuberth would choose; "" if there is none."""
    passing: int = msgspec.field(default=0, name="passingNodes")
    """The number of feasible nodes in Kuberth."""
    equals: int = msgspec.field(default=0, name="equalNodes")
    """The number of nodes with the highest total."""
    scores: Mapping[str, int] = {}
    """Kuberth's scores of `node`, by plugin; empty if it is not feasible."""
    own_scores: Mapping[str, int] = {}
    """Kuberth's scores of `own_node`, by plugin."""
    message: str = ""
    """The reason of the real scheduler's rejection, from the pod's condition."""
    own_message: str = ""
    """Why Kuberth rejected the pod, or what failed."""
    explanation: DifferenceExplanation | None = None
    reordered: tuple[str, ...] = ()
    """Pods whose bindings arrived out of order; in queue order, the two agree."""
    waited_seconds: float | None = None
    """Seconds from when the pod was first seen without gates to the decision; None: it was there before."""
    attempts: int = 0
    """Attempts of the real scheduler, as far as events and this decision show."""
    own_attempts: int = 0
    """The number of Kuberth's decisions for the pod."""
    own_seconds: float = 0.0
    """The duration of Kuberth's decision."""

    @property
    def agrees(self) -> bool:
        return self.agreement in AGREEING

    @property
    def is_unexplained(self) -> bool:
        return not self.agrees and self.explanation is None

    def tree(self) -> dict[str, Any]:
        """The decision as a JSON tree; empty parts are omitted."""
        tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        tree["total"] = sum(self.scores.values()) if self.scores else None
        tree["ownTotal"] = sum(self.own_scores.values()) if self.own_scores else None
        return {name: value for name, value in tree.items() if value not in (None, "", {}, [])}


class ShadowReport:
    """All decisions so far, in bounded memory except for one number per pod."""

    def __init__(self) -> None:
        self.agreements: Counter[Agreement] = Counter()
        self.causes: Counter[DifferenceCause] = Counter()
        self.reordered = 0
        """How many agree only in queue order."""
        self.attempts = self.own_attempts = 0
        """Attempts of the real scheduler and of Kuberth, for placed pods."""
        self.differences: deque[ShadowDecision] = deque(maxlen=KEPT_DIFFERENCES)
        """The last unexplained differences."""
        self._waited = array("d")
        self._took = array("d")

    def record(self, decision: ShadowDecision) -> None:
        self.agreements[decision.agreement] += 1
        self._took.append(decision.own_seconds)
        self.reordered += bool(decision.reordered)
        if decision.explanation is not None:
            self.causes[decision.explanation.cause] += 1
        if decision.is_unexplained:
            self.differences.append(decision)
        if decision.node:
            self.attempts += decision.attempts
            self.own_attempts += decision.own_attempts
            if decision.waited_seconds is not None:
                self._waited.append(decision.waited_seconds)

    @property
    def decisions(self) -> int:
        return self.agreements.total()

    @property
    def placed(self) -> int:
        """Decisions of the real scheduler for a node."""
        rejections = (Agreement.SAME_VERDICT, Agreement.NOT_REJECTED)
        return self.decisions - sum(self.agreements[each] for each in rejections)

    @property
    def agreeing(self) -> int:
        return sum(self.agreements[each] for each in AGREEING)

    @property
    def unexplained(self) -> int:
        return self.decisions - self.agreeing - self.causes.total()

    def waited(self) -> dict[str, float]:
        return _percentiles(self._waited)

    def took(self) -> dict[str, float]:
        return _percentiles(self._took)

    def tree(self) -> dict[str, Any]:
        return {
            "decisions": self.decisions,
            "agreements": {str(each): self.agreements[each] for each in Agreement},
            "agreeingShare": self.agreeing / self.decisions if self.decisions else None,
            "reordered": self.reordered,
            "explained": {str(each): self.causes[each] for each in DifferenceCause},
            "unexplained": self.unexplained,
            "attempts": self.attempts,
            "ownAttempts": self.own_attempts,
            "waitedSeconds": self.waited(),
            "ownSeconds": self.took(),
        }


def _percentiles(numbers: Sequence[float]) -> dict[str, float]:
    """The median, two high ones and the highest, by nearest rank; empty for no numbers."""
    if not numbers:
        return {}
    ordered = sorted(numbers)
    ranks = {"p50": 50, "p90": 90, "p99": 99, "max": 100}
    return {name: round(percentile(ordered, percent), 6) for name, percent in ranks.items()}
