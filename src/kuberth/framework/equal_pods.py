"""What is known for equal pods: one value per signature.

In: what `Plans` prepares for the first of them. Out: the prepared answers, the plugins that are still to be
asked, the plan of the nodes, and how one of these pods was last rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any, NamedTuple

from kuberth.framework.cycle_state import CycleState, GroupAttempt, StateKey
from kuberth.framework.extension_points import PreFilterPlugin, PreScorePlugin
from kuberth.framework.inputs import Versioned
from kuberth.framework.plan import Plan, sum_of_versions
from kuberth.framework.running.filters import Filter
from kuberth.framework.running.scorers import Scorer
from kuberth.framework.status import Status


class KeptRejection(NamedTuple):
    """How a pod that fits on no node was rejected."""

    status: Status
    """With its diagnosis, and what PostFilter said."""
    nomination: str | None
    """"" clears the pod's nomination, None leaves it unchanged."""
    version: int
    """The sum of the versions of all that it depends on, apart from the pods on nodes."""
    rows_version: int
    """The version of the pods on nodes."""
    unschedulable_plugins: Set[str]
    """The plugins that rejected it on some node,"""
    pending_plugins: Set[str]
    """and those of them that answered Pending."""
    preemption_attempts: int = 0
    """How often preemption was tried for it."""
    group: GroupAttempt | None = None
    """The attempt of a group in which it was rejected."""
    verdicts: tuple[Plan, int] | None = None
    """The plan that rejects every node, and the version of its verdicts, if the rejection holds while these
    stay the same. None: it ends with every change of a node or of the pods there."""


class EqualPods:
    """What is known for pods of one signature."""

    def __init__(self, signed: frozenset[str], versions: Sequence[Versioned] = ()) -> None:
        self.signed = signed
        """The plugins for whose stated fields these pods are equal."""
        self.versions = versions
        """What their answers depend on besides the pod."""
        self.plan: Plan | None = None
        """The plan of the nodes; None: these pods do without, since PreFilter does more than prepare."""
        self.memory: dict[StateKey[Any], Any] = {}
        """What plugins share between equal pods (`CycleState.for_equal_pods`)."""
        self.written: dict[StateKey[Any], Any] = {}
        """What PreFilter and PreScore wrote."""
        self.pre_filter: Sequence[PreFilterPlugin] = ()
        """Plugins that still run at PreFilter."""
        self.pre_score: Sequence[PreScorePlugin] = ()
        """Plugins that still run at PreScore."""
        self.asked_filters: Sequence[Filter] = ()
        """Filters that come after those whose verdicts the plan keeps."""
        self.asked_scorers: Sequence[Scorer] = ()
        """Scorers whose scores the plan does not keep."""
        self.kept_scorers: dict[str, int] = {}
        """By plugin, the places of those whose scores it keeps."""
        self.scored_by: tuple[Scorer, ...] = ()
        """All that score these pods, in order, as far as PreScore plugins still to be asked do not skip."""
        self.unconcerned: frozenset[str] = frozenset()
        """Plugins that have nothing to do with these pods."""
        self.rejection: KeptRejection | None = None
        """How one of these pods was last rejected; it may have become out of date."""
        self.rejection_versions: Sequence[Versioned] | None = None
        """What a rejection of these pods depends on; None: more than plugins state."""
        self.rejection_needs_plan = False
        """Whether only rejections are kept in which the plan rejects every node: a filter after those of the
        plan states too little."""
        self._skipped_filter: dict[tuple[str, ...], frozenset[str]] = {}
        self._skipped_score: dict[tuple[str, ...], frozenset[str]] = {}

    def enter(self, state: CycleState) -> None:
        """Begin a pod's attempt with what was prepared."""
        state.equal_pods = self
        state.write_all(self.written)

    @property
    def is_current(self) -> bool:
        """Whether what was prepared still holds."""
        return self._versions == sum_of_versions(self.versions)

    def prepared(self, skip_filter: Iterable[str], skip_score: Iterable[str]) -> None:
        """All is prepared, as of now; these plugins skip."""
        self._versions = sum_of_versions(self.versions)
        self._skipped_filter = {(): frozenset(skip_filter)}
        self._skipped_score = {(): frozenset(skip_score)}

    def skip_filter(self, asked: Sequence[str]) -> frozenset[str]:
        """Plugins whose Filter is skipped, with those that said so now. Equal sets are one object."""
        return _union(self._skipped_filter, asked)

    def skip_score(self, asked: Sequence[str]) -> frozenset[str]:
        """The same for Score."""
        return _union(self._skipped_score, asked)


def _union(known: dict[tuple[str, ...], frozenset[str]], more: Sequence[str]) -> frozenset[str]:
    key = tuple(more)
    found = known.get(key)
    if found is None:
        found = known[key] = known[()].union(key)
    return found
