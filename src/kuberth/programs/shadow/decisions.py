"""Decisions of the real scheduler compared with ours, and the report about them.

In: decisions, one after the other. Out: each as a tree for JSON, and a report: how often the two agree, what
explains it where they do not, how long pods waited and how long deciding took here.
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
"""Number of the last unexplained differences that are kept for the final report."""


class Agreement(enum.StrEnum):
    """The result of a comparison of the two decisions about a pod."""

    SAME = "same node"
    """The real scheduler took the one node that is best here."""
    EQUAL = "equal score"
    """The real scheduler took one of several best nodes; the choice among them is random."""
    OTHER = "other node"
    """Another node is better here, or its node is none that passes here."""
    NOT_PLACED = "placed there, rejected here"
    """No node passes here."""
    SAME_VERDICT = "rejected by both"
    NOT_REJECTED = "rejected there, placed here"
    FAILED = "failed here"
    """A plugin failed, so there is no decision to compare."""


AGREEING: Final = frozenset((Agreement.SAME, Agreement.EQUAL, Agreement.SAME_VERDICT))


class DifferenceCause(enum.StrEnum):
    """The cause that explains a difference."""

    BINDINGS = "bindings"
    """The two agree as soon as some pods whose bindings (or ends) were seen moments before or after this
    decision are counted the other way: the real scheduler knew of them earlier, or not yet."""
    NODES = "nodes"
    """The nodes that the two see differently all changed a moment ago."""
    SAMPLING = "sampling"
    """The real scheduler samples nodes; it may have left out the better ones."""


class DifferenceExplanation(msgspec.Struct, frozen=True):
    cause: DifferenceCause
    text: str
    pods: tuple[str, ...] = ()
    """namespace/name of the pods that make the difference."""
    nodes: tuple[str, ...] = ()


class ShadowDecision(msgspec.Struct, frozen=True, rename="camel"):
    """A decision of the real scheduler, and the one made here at its side."""

    pod: str
    """namespace/name."""
    agreement: Agreement
    node: str = ""
    """The node on which the real scheduler placed the pod; "" if it rejected it."""
    own_node: str = ""
    """The node on which it would have been placed here; "" if there is none."""
    passing: int = msgspec.field(default=0, name="passingNodes")
    """How many nodes pass here."""
    equals: int = msgspec.field(default=0, name="equalNodes")
    """How many of them share the highest total."""
    scores: Mapping[str, int] = {}
    """Scores of `node` here, by plugin; empty if it does not pass."""
    own_scores: Mapping[str, int] = {}
    """Scores of `own_node` here, by plugin."""
    message: str = ""
    """The reason of the rejection, from the pod's condition."""
    own_message: str = ""
    """Why it was rejected here, or what failed."""
    explanation: DifferenceExplanation | None = None
    reordered: tuple[str, ...] = ()
    """Pods whose bindings crossed this one's; the two agree once they are back in the queue's order."""
    waited_seconds: float | None = None
    """Seconds from the first sight of the pod, free of gates, to the decision; None: it waited before."""
    attempts: int = 0
    """Attempts of the real scheduler, as far as its events and this decision show them."""
    own_attempts: int = 0
    """How often it was decided here."""
    own_seconds: float = 0.0
    """How long deciding took here."""

    @property
    def agrees(self) -> bool:
        return self.agreement in AGREEING

    @property
    def is_unexplained(self) -> bool:
        return not self.agrees and self.explanation is None

    def tree(self) -> dict[str, Any]:
        """The decision as a JSON tree; empty parts are left out."""
        tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        tree["total"] = sum(self.scores.values()) if self.scores else None
        tree["ownTotal"] = sum(self.own_scores.values()) if self.own_scores else None
        return {name: value for name, value in tree.items() if value not in (None, "", {}, [])}


class ShadowReport:
    """Everything so far, in bounded memory but for a number a pod."""

    def __init__(self) -> None:
        self.agreements: Counter[Agreement] = Counter()
        self.causes: Counter[DifferenceCause] = Counter()
        self.reordered = 0
        """How many agree only with crossing bindings back in the queue's order."""
        self.attempts = self.own_attempts = 0
        """Attempts, of the real scheduler and here, for pods that were placed."""
        self.differences: deque[ShadowDecision] = deque(maxlen=KEPT_DIFFERENCES)
        """The last ones that nothing explains."""
        self._waited = array("d")
        self._took = array("d")

    def note(self, decision: ShadowDecision) -> None:
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
