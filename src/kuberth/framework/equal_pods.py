"""Results that equal pods share: one value per signature.

In: what `Plans` computes for the first of these pods. Out: the answers that hold for all of them, the plugins
to call for each, the plan of the nodes, and the last rejection of such a pod.
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
    """The rejection of a pod that fits on no node."""

    status: Status
    """The status, with its diagnosis and the message of PostFilter."""
    nomination: str | None
    """"" clears the pod's nomination, None leaves it unchanged."""
    version: int
    """The sum of the versions of everything that it depends on, except the pods on nodes."""
    rows_version: int
    """The version of the pods on nodes."""
    unschedulable_plugins: Set[str]
    """The plugins that rejected the pod on some node."""
    pending_plugins: Set[str]
    """The rejecting plugins that returned Pending."""
    preemption_attempts: int = 0
    """The number of preemption attempts for the pod."""
    group: GroupAttempt | None = None
    """The attempt of a group in which the pod was rejected."""
    verdicts: tuple[Plan, int] | None = None
    """The plan that rejects every node, with the version of its verdicts, if the rejection is valid as long
    as the verdicts do not change. None: every change of a node or its pods ends it."""


class EqualPods:
    """Results that pods of one signature share."""

    def __init__(self, signed: frozenset[str], versions: Sequence[Versioned] = ()) -> None:
        self.signed = signed
        """The plugins whose stated fields are part of the signature."""
        self.versions = versions
        """What the answers of these plugins depend on besides the pod."""
        self.plan: Plan | None = None
        """The plan of the nodes; None if PreFilter rejects pods or narrows the search."""
        self.memory: dict[StateKey[Any], Any] = {}
        """Values of plugins that equal pods share (`CycleState.for_equal_pods`)."""
        self.written: dict[StateKey[Any], Any] = {}
        """The data that PreFilter and PreScore wrote."""
        self.pre_filter: Sequence[PreFilterPlugin] = ()
        """Plugins to call at PreFilter."""
        self.pre_score: Sequence[PreScorePlugin] = ()
        """Plugins to call at PreScore."""
        self.uncached_filters: Sequence[Filter] = ()
        """Filters whose verdicts the plan does not cache; they come after all others."""
        self.uncached_scorers: Sequence[Scorer] = ()
        """Scorers whose scores the plan does not cache."""
        self.kept_scorers: dict[str, int] = {}
        """By plugin: the index of a scorer whose scores the plan caches."""
        self.scored_by: tuple[Scorer, ...] = ()
        """All scorers of these pods, in order, unless a PreScore plugin to call skips them."""
        self.unconcerned: frozenset[str] = frozenset()
        """Plugins that ignore these pods."""
        self.rejection: KeptRejection | None = None
        """The last rejection of such a pod; it may be outdated."""
        self.rejection_versions: Sequence[Versioned] | None = None
        """What a rejection of these pods depends on; None if some plugin does not state it."""
        self.rejection_needs_plan = False
        """Whether a rejection is kept only if the plan rejects every node, because an uncached filter may
        change its answer at any time."""
        self._skipped_filter: dict[tuple[str, ...], frozenset[str]] = {}
        self._skipped_score: dict[tuple[str, ...], frozenset[str]] = {}

    def enter(self, state: CycleState) -> None:
        """Begin a pod's attempt with these results."""
        state.equal_pods = self
        state.write_all(self.written)

    @property
    def is_current(self) -> bool:
        """Whether the results are still valid."""
        return self._versions == sum_of_versions(self.versions)

    def prepared(self, skip_filter: Iterable[str], skip_score: Iterable[str]) -> None:
        """Record that the results are valid as of now, and the plugins that skip these pods."""
        self._versions = sum_of_versions(self.versions)
        self._skipped_filter = {(): frozenset(skip_filter)}
        self._skipped_score = {(): frozenset(skip_score)}

    def skip_filter(self, skipped: Sequence[str]) -> frozenset[str]:
        """The plugins whose Filter is skipped; `skipped` are those that returned Skip for this pod. Equal
        sets are one object."""
        return _union(self._skipped_filter, skipped)

    def skip_score(self, skipped: Sequence[str]) -> frozenset[str]:
        """The same for Score."""
        return _union(self._skipped_score, skipped)


def _union(known: dict[tuple[str, ...], frozenset[str]], more: Sequence[str]) -> frozenset[str]:
    key = tuple(more)
    found = known.get(key)
    if found is None:
        found = known[key] = known[()].union(key)
    return found
