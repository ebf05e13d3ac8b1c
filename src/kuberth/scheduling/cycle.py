"""One scheduling cycle: PreFilter, Filter, PostFilter, PreScore, Score, Reserve, Permit.

In: a pod popped from the queue. Out: a `Placement` (the pod is assumed on its node) or a `Rejection`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Final

import numpy as np

from kuberth.api.core import Pod
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis, FitError
from kuberth.framework.equal_pods import KeptRejection
from kuberth.framework.extension_points import PostFilterResult
from kuberth.framework.nominator import Nominator
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.runner import Runner
from kuberth.framework.running.scoring import NodeScores
from kuberth.framework.status import Code, Status
from kuberth.observe import verbosity
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.outcomes.placement import BestScores, Choice, Placement
from kuberth.outcomes.rejection import CLEAR_NOMINATION, NO_NODES, Rejection, rejected_on
from kuberth.scheduling.checking import CHECK_EVERY, PlanCheck
from kuberth.scheduling.sampling import Sampler
from kuberth.scheduling.search import NodeSearch, Sampling

PLUGIN_METRICS_SAMPLE: Final = 0.1
"""Share of cycles in which single plugins are timed."""
BEST_NODES: Final = 5
"""How many of the best nodes keep their scores, if any do."""


class SchedulingCycle:
    """Makes decisions over the cluster table, which it changes only to place a pod.

    `run` is the whole cycle. Its steps are public for callers that only want to know the decision, and for
    the cycle that waits between steps (`kuberth.scheduling.extended_cycle`).
    """

    def __init__(
        self,
        cluster: ClusterTable,
        *,
        nominator: Nominator,
        metrics: SchedulerMetrics,
        percentage_of_nodes_to_score: int | None = None,
        sampling: Sampling | None = None,
        rng: random.Random | None = None,
        check_every: int = CHECK_EVERY,
    ) -> None:
        """`check_every`: decide every n-th cycle a second time without plans; 0 turns this off."""
        self._cluster = cluster
        self._nominator = nominator
        self._algorithm_duration = metrics.algorithm_duration.of(())
        self._batch_attempts = metrics.batch_attempts
        self._preemption_attempts = metrics.preemption_attempts
        self._rng = random.Random() if rng is None else rng
        self.nodes = NodeSearch(
            cluster=cluster,
            sampling=Sampler() if sampling is None else sampling,
            percentage=percentage_of_nodes_to_score,
        )
        self._check = PlanCheck(cluster, metrics=metrics, every=check_every)
        self.score_tables = 0
        """For how many more choices the scores of the best nodes are recorded, for observers."""

    def run(self, queued: QueuedPod, runner: Runner) -> Placement | Rejection:
        """Find a node for the pod and place the pod on it."""
        started = time.perf_counter()
        state = self.begin(queued)
        is_checked = self._check.is_due()
        kept = runner.plans.rejection(queued.info) if is_checked and runner.plans is not None else None
        choice = self.decide(state, queued, runner, started, is_checked=is_checked)
        if kept is not None and state.uses_plans:
            fresh = choice if isinstance(choice, Rejection) else None
            self._check.compare(kept, fresh, queued.info.pod, runner)
        if isinstance(choice, Rejection):
            return choice
        return self.take(state, queued, runner, choice, started)

    def is_check_due(self) -> bool:
        """Whether the next attempt is checked; if so, equal pods must not be rejected without an attempt.

        Otherwise, the attempts of all pods that are rejected together count as one.
        """
        return not self._check.skips()

    def count_repeated(self) -> None:
        """Record an attempt that ends like that of an equal pod."""
        self._rng.random()  # every attempt draws one number

    def _rejected_again(
        self, queued: QueuedPod, runner: Runner, kept: KeptRejection, started: float
    ) -> Rejection:
        """Reject the pod like an equal pod, since nothing has changed."""
        if kept.preemption_attempts:
            self._preemption_attempts.inc((), kept.preemption_attempts)
        self._algorithm_duration.observe(time.perf_counter() - started)
        return Rejection(queued, kept.status, runner, started, kept.nomination, is_repeated=True)

    def begin(self, queued: QueuedPod) -> CycleState:
        """Create the state for one attempt."""
        return CycleState(queued.info, record_plugin_metrics=self._rng.random() < PLUGIN_METRICS_SAMPLE)

    # Deciding

    def decide(
        self,
        state: CycleState,
        queued: QueuedPod,
        runner: Runner,
        started: float,
        *,
        is_checked: bool | None = None,
    ) -> Choice | Rejection:
        """Find a node for the pod without placing the pod on it.

        `is_checked`: verify the result without plans; None: only if this cycle is due for a check.
        """
        pod, diagnosis = queued.info.pod, Diagnosis()
        is_checked = self._check.is_due() if is_checked is None else is_checked
        position = self.nodes.position if is_checked else 0
        found = self.search(state, pod, runner, diagnosis, may_repeat=not is_checked)
        if state.kept_rejection is not None:
            return self._rejected_again(queued, runner, state.kept_rejection, started)
        hint = "no_hint" if state.equal_pods is None else "hint_used"
        if is_checked and state.equal_pods is not None:
            evaluated = 1 if isinstance(found, Status) else found[1]
            if self._check.finds_difference(state, pod, runner, start=position, number=evaluated):
                state.restart_without_plans()
                self.nodes.position, diagnosis = position, Diagnosis()
                found = self.search(state, pod, runner, diagnosis)
                hint = "hint_not_used"
        outcome: Choice | Rejection
        if isinstance(found, Status):
            outcome = Rejection(queued, found, runner, started)
        elif not len(found[0]):
            tried = self._preemption_attempts.values.get((), 0)
            result, status = self.run_post_filter(state, pod, runner, diagnosis)
            outcome = fits_nowhere(queued, runner, result, status, diagnosis, started=started)
            tried = self._preemption_attempts.values.get((), 0) - tried
            self._keep_rejection(state, runner, outcome, diagnosis, preemption_attempts=int(tried))
        else:
            outcome = self._choose(state, queued, runner, *found, started=started)
        # Counted as in kube-scheduler: "hint" when a node is chosen, "no hint" when PreFilter has passed.
        passed = diagnosis.pre_filter is None and not isinstance(found, Status)
        if isinstance(outcome, Choice) or (passed and hint == "no_hint"):
            self._batch_attempts.inc((runner.profile.scheduler_name, hint))
        self._algorithm_duration.observe(time.perf_counter() - started)
        return outcome

    def _choose(
        self,
        state: CycleState,
        queued: QueuedPod,
        runner: Runner,
        nodes: Nodes,
        evaluated: int,
        *,
        started: float,
    ) -> Choice | Rejection:
        """The best of the feasible nodes."""
        number = len(nodes)
        if number == 1 or not runner.profile.score:
            return Choice(nodes.name(0), evaluated, number)
        pod = queued.info.pod
        scores = self.rank(state, pod, runner, nodes)
        if isinstance(scores, Status):
            return Rejection(queued, scores, runner, started)
        best = self.best(scores)
        if verbosity.level >= verbosity.SCORES_LEVEL:
            verbosity.log_scores(pod, nodes.name, scores, best)
        table = self.score_table(nodes, scores, best)
        return Choice(nodes.name(best), evaluated, number, table)

    def _keep_rejection(
        self,
        state: CycleState,
        runner: Runner,
        outcome: Rejection,
        diagnosis: Diagnosis,
        *,
        preemption_attempts: int,
    ) -> None:
        """Let equal pods be rejected in the same way.

        A failure is not kept, since it may be temporary.
        """
        found = diagnosis.post_filter
        if runner.plans is not None and (found is None or found.is_rejected):
            runner.plans.rejections.keep(
                state, outcome.status, outcome.nomination, preemption_attempts=preemption_attempts
            )

    def search(
        self,
        state: CycleState,
        pod: Pod,
        runner: Runner,
        diagnosis: Diagnosis,
        *,
        may_repeat: bool = False,
    ) -> tuple[Nodes, int] | Status:
        """The nodes to choose from and the number of evaluated nodes, or a Status if there is no choice.

        With `may_repeat`, the search may end after PreFilter with `state.kept_rejection`.
        """
        if self._node_count(state) == 0:
            return Status.unresolvable(NO_NODES)
        return self.nodes.run(state, pod, runner, diagnosis, may_repeat=may_repeat)

    def rank(self, state: CycleState, pod: Pod, runner: Runner, nodes: Nodes) -> NodeScores | Status:
        """The scores of feasible nodes, or a Status if a plugin failed."""
        status = runner.scoring.run_pre_score(state, pod, nodes)
        return runner.scoring.run(state, pod, nodes) if status.is_success else status

    def run_post_filter(
        self, state: CycleState, pod: Pod, runner: Runner, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Run the PostFilter plugins after no node passed; the status contains the reasons."""
        result: PostFilterResult | None = None
        if runner.profile.post_filter and (state.group is None or state.group.preempts):
            result, diagnosis.post_filter = runner.post_filtering.run(state, pod, diagnosis)
        return result, self.no_fit(diagnosis, self._node_count(state))

    def no_fit(self, diagnosis: Diagnosis, nodes: int | None = None) -> Status:
        """Reject the pod because no node is feasible.

        `nodes` is the number of nodes to report, if it is not that of the cluster.
        """
        error = FitError(diagnosis, self._cluster.node_count if nodes is None else nodes)
        return Status(Code.UNSCHEDULABLE, str(error), cause=error)

    def _node_count(self, state: CycleState) -> int:
        """The number of nodes that this pod's search considers."""
        if state.group is None or state.group.nodes is None:
            return self._cluster.node_count
        return len(state.group.nodes)

    def best(self, scores: NodeScores) -> int:
        """The position of a node with the highest total; a random one among equals."""
        ranks = scores.ranks
        best = (ranks == ranks.item(ranks.argmax())).nonzero()[0]
        return int(best[0] if len(best) == 1 else self._rng.choice(best))

    def score_table(self, nodes: Nodes, scores: NodeScores, best: int) -> BestScores | None:
        """The scores of the best nodes, the chosen one first; None if no observer needs them."""
        if self.score_tables <= 0:
            return None
        self.score_tables -= 1
        ranked = np.argsort(-scores.totals, kind="stable")[: BEST_NODES + 1].tolist()
        positions = [best, *(position for position in ranked if position != best)][:BEST_NODES]
        return BestScores(
            tuple(map(nodes.name, positions)),
            {plugin: tuple(given[positions].tolist()) for plugin, given in scores.by_plugin.items()},
            tuple(scores.totals[positions].tolist()),
        )

    # Taking the node

    def take(
        self, state: CycleState, queued: QueuedPod, runner: Runner, choice: Choice, started: float
    ) -> Placement | Rejection:
        """Assume the pod on the node, then run Reserve and Permit; undo everything if a plugin rejects it."""
        info = state.placed(queued.info, choice.node_name)
        self._cluster.assume_pod(info)
        self._nominator.withdraw(info.pod)
        status = runner.reserving.run_reserve(state, info.pod, choice.node_name)
        timeouts: Mapping[str, float] = {}
        if status.is_success:
            status, timeouts = runner.reserving.run_permit(state, info.pod, choice.node_name)
        if status.is_success or status.is_wait:
            return Placement(queued, info, choice, state, runner, started, timeouts)
        runner.reserving.run_unreserve(state, info.pod, choice.node_name)
        self._cluster.forget_pod(info.uid)
        return Rejection(queued, rejected_on(choice.node_name, status), runner, started)


def fits_nowhere(
    queued: QueuedPod,
    runner: Runner,
    result: PostFilterResult | None,
    status: Status,
    diagnosis: Diagnosis,
    *,
    started: float,
) -> Rejection:
    """End a cycle in which no node passed, with the result of PostFilter."""
    if verbosity.level >= 5:
        said = "" if diagnosis.post_filter is None else diagnosis.post_filter.message
        verbosity.log(5, "Status after running PostFilter plugins for pod", pod=queued.pod, status=said)
    nomination: str | None = CLEAR_NOMINATION
    if runner.profile.post_filter:
        nomination = None if result is None else result.nominated_node
    return Rejection(queued, status, runner, started, nomination)
