"""The extenders' review of a preemption: they may remove nodes and choose other victims.

In: the candidates of a search. Out: the candidate with the lowest cost that the extenders accept and that
still helps. The cluster may change meanwhile: deleted victims and used resources are detected here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from kuberth.api.core import Pod
from kuberth.api.pod_resources import pod_priority
from kuberth.cluster.nodes import NodeRow
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import ExtenderError
from kuberth.extenders import HttpExtender, ProposedVictims
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.handle import Handle
from kuberth.framework.moments import Moment, moment
from kuberth.framework.status import Status
from kuberth.plugins.default_preemption.candidates import Candidate, Search
from kuberth.plugins.default_preemption.plans import Victims
from kuberth.plugins.default_preemption.trials import Preemptor

logger = logging.getLogger(__name__)

Agreed = Mapping[str, Victims]
"""By node."""
_IGNORED: Final = "Skipped extender as it returned error and has ignorable flag set: %s"


class ExtenderReview:
    """The review of one preemption."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._cluster = handle.cluster
        self._seen = self._moment()

    def _moment(self) -> Moment:
        return moment(self._cluster, self._handle.nominator, self._handle.stores)

    async def agreed_by_all(
        self, extenders: Sequence[HttpExtender], pod: Pod, search: Search
    ) -> Agreed | Status:
        """Call the extenders one after the other; returns the candidates that all of them accept."""
        candidates = [search.candidate(row) for row in search.rows.tolist()]
        agreed: Agreed = {candidate.node_name: candidate.victims for candidate in candidates}
        for extender in extenders:
            try:
                agreed = await self._reviewed_by(extender, pod, agreed)
            except ExtenderError as exc:
                if not extender.config.ignorable:
                    return Status.error(str(exc))
                logger.warning(_IGNORED, exc)
            if not agreed:
                break
        return agreed

    async def _reviewed_by(self, extender: HttpExtender, pod: Pod, asked: Agreed) -> Agreed:
        answer = await extender.preempt(
            pod,
            {
                name: ProposedVictims([info.uid for info in of.pods], of.budget_violations)
                for name, of in asked.items()
            },
            {info.uid: info.pod for victims in asked.values() for info in victims.pods},
        )
        agreed: dict[str, Victims] = {}
        for name, proposed in answer.items():
            victims = self._found(extender, name, proposed, asked, below=pod_priority(pod))
            if victims.pods:
                agreed[name] = victims
            elif extender.config.ignorable:
                logger.warning(
                    "Ignored node for which the extender didn't report victims: node %s, extender %s",
                    name,
                    extender.name,
                )
            else:
                raise ExtenderError(extender.name, f'expected at least one victim pod on node "{name}"')
        return agreed

    def _found(
        self,
        extender: HttpExtender,
        name: str,
        proposed: ProposedVictims | None,
        asked: Agreed,
        *,
        below: int,
    ) -> Victims:
        """The pods with these UIDs on the node; ExtenderError for invalid victims."""
        row = self._cluster.row_of(name)
        if name not in asked:
            problem = f'claims to preempt on node "{name}" which is not found in the input node list'
            raise ExtenderError(extender.name, f'extender "{extender.name}" {problem}')
        # A victim may have left the node during the call, which is not the extender's error.
        known = {info.uid: info for info in asked[name].pods}
        if row is not None:
            known |= {info.uid: info for info in self._cluster.pods_at(row)}
        victims = []
        for uid in () if proposed is None else proposed.uids:
            problem = f"claims to preempt pod (UID: {uid}) on node: {name}"
            info = known.get(uid)
            if info is None:
                problem = f"extender: {extender.name} {problem}, but the pod is not found on that node"
                raise ExtenderError(extender.name, problem)
            if info.priority >= below:
                # kube-scheduler would evict any pod that an extender names.
                problem = f"extender: {extender.name} {problem}, but the pod's priority is not lower"
                raise ExtenderError(extender.name, problem)
            victims.append(info)
        return Victims(tuple(victims), 0 if proposed is None else proposed.budget_violations)

    def best_that_helps(self, agreed: Agreed, state: CycleState, pod: Pod) -> Candidate | None:
        """The candidate with the lowest cost; if the cluster has changed meanwhile, one that still helps."""
        candidates = sorted(map(Candidate._make, agreed.items()), key=lambda each: each.victims.cost)
        if self._moment() == self._seen:
            return candidates[0] if candidates else None
        runner = self._handle.runner
        assert runner is not None
        fresh = CycleState(state.pod_info, record_plugin_metrics=state.record_plugin_metrics)
        if not runner.pre_filtering.run(fresh, pod, self._cluster.all_nodes()).status.is_success:
            return None
        preemptor = Preemptor(pod, runner, fresh, cluster=self._cluster, priority=pod_priority(pod))
        return next(filter(None, (self._present(preemptor, each) for each in candidates)), None)

    def _present(self, preemptor: Preemptor, candidate: Candidate) -> Candidate | None:
        """The candidate in the current state; None if evicting its victims would not help any more."""
        row = self._cluster.row_of(candidate.node_name)
        if row is None:
            return None
        there = {info.uid: info for info in self._cluster.pods_at(row)}
        victims = tuple(there[info.uid] for info in candidate.victims.pods if info.uid in there)
        if not victims or not self._frees_enough(preemptor, victims, NodeRow(self._cluster, row)):
            return None
        return Candidate(candidate.node_name, candidate.victims._replace(pods=victims))

    def _frees_enough(self, preemptor: Preemptor, victims: Sequence[PodInfo], node: NodeRow) -> bool:
        runner, state, pod = preemptor.runner, preemptor.state.clone(), preemptor.pod
        with self._cluster.what_if() as what_if:
            for info in victims:
                what_if.remove_pod(info, node.row)
                if not runner.filtering.run_remove_pod(state, pod, info, node).is_success:
                    return False
            return runner.filtering.status(state, pod, node).is_success
