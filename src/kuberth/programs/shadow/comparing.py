"""Makes Kuberth's decision for a pod, and searches for the cause of a difference.

In: the pod before its decision, its node, and the changes seen shortly before and after. Out: how the two
decisions compare. The real scheduler decided shortly before its binding was seen, over a cluster with its own
bindings: so a difference is evaluated again with some of these changes reverted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.what_if import LoggedWhatIf
from kuberth.evaluation import Answer, Evaluator
from kuberth.programs.shadow.decisions import Agreement, DifferenceCause, DifferenceExplanation
from kuberth.scheduling.sampling import nodes_to_find

ROUNDS: Final = 8
"""The maximum number of searches for the pods on relevant nodes, each for another result."""
STEPS: Final = (0, 1, 2, 4, 8, 16, 32)
"""How many of the nearest changes, before and after, are tried together."""
TRIALS: Final = 100
"""The maximum number of evaluations for one pod."""


class Alteration(NamedTuple):
    """A pod to count or not to count, in contrast to the table."""

    info: PodInfo
    adds: bool
    """Whether the pod counts on its node."""
    is_learned: bool = False
    """Whether the real scheduler learned of the change from its watch, as of the end of a pod: it knew of all
    such changes before the last one that it knew of."""


class ShadowComparison(NamedTuple):
    agreement: Agreement
    answer: Answer
    own_node: str = ""
    equals: int = 0
    explanation: DifferenceExplanation | None = None
    reordered: tuple[str, ...] = ()
    """Pods whose bindings had to be put into queue order for the two to agree."""
    seconds: float = 0.0
    """The duration of the decision, without the search for an explanation."""


class Surroundings(NamedTuple):
    """Changes seen around a decision, of which the real scheduler may have known more or fewer."""

    before: Sequence[Alteration] = ()
    """The reverted changes shortly before, the last one first."""
    after: Sequence[Alteration] = ()
    """The changes shortly after, the first one first."""
    nodes: Collection[str] = ()
    """Nodes that changed shortly before."""
    crossed: Sequence[Alteration] = ()
    """Changes of `before` and `after` that were in the opposite order in the queue. A scheduler pops the pods
    one by one, but their bindings arrive in any order."""


class ShadowEvaluator:
    """Evaluates pods with an evaluator that the caller updates."""

    def __init__(self, evaluator: Evaluator, *, percentage_of_nodes_to_score: int | None = None) -> None:
        """The percentage applies to profiles that set none."""
        self._evaluator = evaluator
        own = evaluator.runner.profile.percentage_of_nodes_to_score
        self._percentage = percentage_of_nodes_to_score if own is None else own

    def placed(self, pod: Pod, node: str, around: Surroundings) -> ShadowComparison:
        """Compare for a pod that the real scheduler placed on this node; the pod has no node here."""
        answer, seconds = self._decide(pod)
        search = _Search(self._evaluator, pod, around, lambda other: node in best_nodes(other), node)
        reordered: tuple[str, ...] = ()
        if node not in best_nodes(answer) and around.crossed:
            in_order = search.evaluate(around.crossed)
            if node in best_nodes(in_order):
                answer, reordered = in_order, tuple(each.info.key for each in around.crossed)
        best = best_nodes(answer)
        if node in best:
            agreement = Agreement.SAME if len(best) == 1 else Agreement.EQUAL
            return ShadowComparison(agreement, answer, node, len(best), reordered=reordered, seconds=seconds)
        agreement = Agreement.OTHER if best else Agreement.NOT_PLACED
        own = best[0] if best else ""
        explanation = search.run(answer) or self._changed(answer, node, around) or self._sampled(answer, node)
        return ShadowComparison(agreement, answer, own, len(best), explanation, seconds=seconds)

    def rejected(self, pod: Pod, around: Surroundings) -> ShadowComparison:
        """Compare for a pod that the real scheduler rejected."""
        answer, seconds = self._decide(pod)
        best = best_nodes(answer)
        if not best:
            return ShadowComparison(Agreement.SAME_VERDICT, answer, seconds=seconds)
        search = _Search(self._evaluator, pod, around, lambda other: not other.feasible)
        explanation = search.run(answer) or self._changed(answer, "", around)
        return ShadowComparison(
            Agreement.NOT_REJECTED, answer, best[0], len(best), explanation, seconds=seconds
        )

    def _decide(self, pod: Pod) -> tuple[Answer, float]:
        started = time.perf_counter()
        return self._evaluator.evaluate(pod), time.perf_counter() - started

    def _changed(self, answer: Answer, node: str, around: Surroundings) -> DifferenceExplanation | None:
        """Whether recently changed nodes cause the whole difference."""
        doubtful = {node} if node and node not in answer.totals else better_nodes(answer, node)
        if not doubtful or not doubtful <= set(around.nodes):
            return None
        names = tuple(sorted(doubtful))
        return DifferenceExplanation(
            DifferenceCause.NODES, f"changed a moment before: {', '.join(names)}", nodes=names
        )

    def _sampled(self, answer: Answer, node: str) -> DifferenceExplanation | None:
        if node not in answer.totals:
            return None
        enough = nodes_to_find(self._evaluator.cluster.node_count, self._percentage)
        better = len(better_nodes(answer, node))
        if better > len(answer.totals) - enough:
            return None
        return DifferenceExplanation(
            DifferenceCause.SAMPLING,
            f"{better} of {len(answer.totals)} passing nodes are better, "
            f"but a scheduler that samples stops at {enough}",
        )


def best_nodes(answer: Answer) -> list[str]:
    """The nodes with the highest total, by name."""
    if not answer.totals:
        return []
    highest = max(answer.totals.values())
    return sorted(name for name, total in answer.totals.items() if total == highest)


def better_nodes(answer: Answer, node: str) -> set[str]:
    """The nodes with a higher total than this one's; all feasible ones, if it is not feasible."""
    own = answer.totals.get(node)
    return {name for name, total in answer.totals.items() if own is None or total > own}


@dataclass(eq=False)
class _Search:
    """Searches for the fewest changes that, when reverted, make the two decisions agree."""

    evaluator: Evaluator
    pod: Pod
    around: Surroundings
    agrees: Callable[[Answer], bool]
    node: str = ""

    def __post_init__(self) -> None:
        self._learned = [each for each in self.around.before if each.is_learned]
        self._trials = TRIALS

    def run(self, answer: Answer) -> DifferenceExplanation | None:
        found = (
            self._on_relevant_nodes(answer, directed=True)
            or self._on_relevant_nodes(answer, directed=False)
            or self._nearest()
        )
        if not found:
            return None
        fewest = self._with_later_learned(self._minimal(found))
        texts = []
        later = tuple(each.info.key for each in fewest if each in self.around.after)
        earlier = tuple(each.info.key for each in fewest if each not in self.around.after)
        if later:
            texts.append(f"with what was seen only afterwards of {', '.join(later)}")
        if earlier:
            texts.append(f"without what was seen just before of {', '.join(earlier)}")
        return DifferenceExplanation(
            DifferenceCause.BINDINGS, f"both agree {' and '.join(texts)}", pods=(*earlier, *later)
        )

    def _on_relevant_nodes(self, answer: Answer, *, directed: bool) -> list[Alteration]:
        """Fill the nodes that are better here, and free the chosen one, as far as the changes allow.

        If not directed, also the opposite, since an additional pod may also balance a node.
        """
        left = [*self.around.before, *self.around.after]
        taken: list[Alteration] = []
        for _ in range(ROUNDS):
            better = better_nodes(answer, self.node)
            new = [
                each
                for each in left
                if each.info.node_name in better | {self.node}
                and (not directed or each.adds == (each.info.node_name in better))
            ]
            if not new:
                break
            taken += new
            left = [each for each in left if each not in new]
            answer = self.evaluate(taken)
            if self.agrees(answer):
                return taken
        return []

    def _nearest(self) -> list[Alteration]:
        """The nearest changes on any node, since pods also count in the domains of others."""
        before, after = self.around.before, self.around.after
        numbers = sorted(
            {(min(early, len(before)), min(late, len(after))) for early in STEPS for late in STEPS},
            key=lambda pair: (sum(pair), pair),
        )
        for early, late in numbers[1:]:
            if self._trials <= 0:
                return []
            taken = [*before[:early], *after[:late]]
            if self.agrees(self.evaluate(taken)):
                return taken
        return []

    def _minimal(self, found: list[Alteration]) -> list[Alteration]:
        """Remove changes that make no difference, in halves, quarters and so on."""
        size = len(found) // 2
        while size:
            start = 0
            while start < len(found) and len(found) > 1 and self._trials > 0:
                shorter = found[:start] + found[start + size :]
                if shorter and self.agrees(self.evaluate(shorter)):
                    found = shorter
                else:
                    start += size
            size = min(size // 2, len(found) // 2) if size > 1 else 0
        return found

    def _with_later_learned(self, taken: Sequence[Alteration]) -> Sequence[Alteration]:
        """With a change that the scheduler had not learned of yet, all those that came after it."""
        first = max((self._learned.index(each) for each in taken if each.is_learned), default=-1)
        return [*taken, *(each for each in self._learned[: first + 1] if each not in taken)]

    def evaluate(self, alterations: Sequence[Alteration]) -> Answer:
        self._trials -= 1
        table = self.evaluator.cluster
        what_if = LoggedWhatIf(table)
        try:
            for info, adds, _is_learned in self._with_later_learned(alterations):
                row = table.row_of(info.node_name)
                if row is None:
                    continue
                present = next((each for each in table.pods_at(row) if each.uid == info.uid), None)
                if adds and present is None:
                    what_if.add_pod(info, row)
                elif not adds and present is not None:
                    what_if.remove_pod(present, row)
            return self.evaluator.evaluate(self.pod)
        finally:
            what_if.undo()
