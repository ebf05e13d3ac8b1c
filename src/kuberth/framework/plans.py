"""Plans by signature: which pods are equal, and what plugins compute once for all of them.

In: a pod about to be scheduled. Out: its `EqualPods`. For the first pod of a signature there is none, and
every plugin is called.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.selected_labels import SelectedLabels
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState, GroupAttempt
from kuberth.framework.equal_pods import EqualPods, KeptRejection, Rejections, skips_all_called
from kuberth.framework.extension_points import Plugin, PreFilterExtensions, PreFilterPlugin, PreScorePlugin
from kuberth.framework.inputs import PHASES, DependsOn, Inputs, Signer, signer, values_of
from kuberth.framework.nominator import Nominator
from kuberth.framework.plan import Kept, KeptScorer, Plan, plan_bytes
from kuberth.framework.profile import Profile
from kuberth.framework.running.calls import Calls
from kuberth.framework.running.filters import Filter, Filters
from kuberth.framework.running.scorers import Scorer, Scorers
from kuberth.framework.status import Status

logger = logging.getLogger(__name__)

MAX_BYTES: Final = 128 * 2**20
"""The maximum size of all plans of a profile; the least recently used ones are dropped."""
MAX_PLANS: Final = 1024
"""The maximum number of plans, which limits memory in small clusters."""
REJECTION_BYTES: Final = 16
"""The size of a kept rejection's diagnosis, per row."""
MAX_SIGNATURES: Final = 4096
"""The maximum number of signatures that were seen once. The second pod of a signature gets a plan, since many
pods have no equal."""

_PlanKey = tuple[tuple[str, ...], tuple[str, ...], bytes, int]


@dataclass(eq=False, kw_only=True)
class Plans:
    """The plans of one profile."""

    profile: Profile
    cluster: ClusterTable
    nominator: Nominator
    calls: Calls
    filters: Filters
    scorers: Scorers
    max_bytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        self.cluster.selected_labels.follow(self.nominator.changes, self._register_nominated)
        self.clear()

    def clear(self) -> None:
        """Drop all results, and read the statements again."""
        self._equal_pods: OrderedDict[bytes, EqualPods] = OrderedDict()
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._plans: WeakValueDictionary[_PlanKey, Plan] = WeakValueDictionary()
        self._signers: dict[tuple[str, ...], Signer] = {}
        self._capacity = 0
        self._statements = {
            name: inputs
            for name in self.profile.plugins
            if (inputs := self.profile.statements.of(name)) is not None
        }
        self._concern: dict[str, Callable[[PodInfo], Any]] = {
            name: values_of(name, inputs.only_with)
            for name, inputs in self._statements.items()
            if inputs.only_with
        }
        self._idle = {
            name: inputs.idle for name, inputs in self._statements.items() if inputs.idle is not None
        }
        self.rejections = Rejections(
            profile=self.profile,
            statements=self._statements,
            cluster=self.cluster,
            nominator=self.nominator,
        )
        """The rejections of pods that fit on no node."""
        signed = {name: inputs for name, inputs in self._statements.items() if _is_kept_somewhere(inputs)}
        self._signed = frozenset(signed)
        prepared = (inputs for inputs in signed.values() if _prepares(inputs))
        versions = [each for inputs in prepared for each in inputs.versions]
        fields = {field for inputs in signed.values() for field in inputs.signed_fields}
        for idle in self._idle.values():
            versions += idle.versions
            fields |= set(idle.fields)
        self._versions = tuple(dict.fromkeys(versions))
        self._labels = _labels_of(signed.values())
        self._labels_version = 0 if self._labels is None else self._labels.version
        presence = {field for inputs in self._statements.values() for field in inputs.only_with}
        # Which nominated pods count on a node depends on the pod's priority.
        self._sign = (
            signer(fields | {"info.priority"}, presence=presence, labels=self._labels) if signed else None
        )

    def find(self, info: PodInfo, nodes: Nodes) -> EqualPods | None:
        """The results for equal pods; None for the first of them, and if nothing can be cached."""
        signature = self.signature(info)
        if signature is None:
            return None
        equal_pods = self._equal_pods.get(signature)
        if equal_pods is None:
            if signature not in self._seen:
                self._seen[signature] = None
                if len(self._seen) > MAX_SIGNATURES:
                    self._seen.popitem(last=False)
                return None
            del self._seen[signature]
            equal_pods = self._equal_pods[signature] = EqualPods(self._signed, self._versions)
            self._prepare(equal_pods, info, nodes)
            self._drop_surplus()
        else:
            self._equal_pods.move_to_end(signature)
            if not equal_pods.is_current:
                self._prepare(equal_pods, info, nodes)
            if self._capacity != len(self.cluster.live):  # the cluster has grown, and the plans with it
                self._drop_surplus()
        return None if equal_pods.plan is None else equal_pods

    def signature(self, info: PodInfo) -> bytes | None:
        """The signature of a pod, cached with the pod; None if it cannot be signed."""
        labels = self._labels
        if labels is not None:
            labels.refresh()
            if labels.version != self._labels_version:
                self.clear()
        signed = info.signed
        if signed is not None and signed[0] is self._sign:
            return signed[1]
        signature = None if self._sign is None else self._sign(info)
        if labels is not None and labels.version != self._labels_version:
            self.clear()  # the pod's own selectors distinguish pods that were equal before
        info.signed = self._sign, signature
        return signature

    def _drop_surplus(self) -> None:
        self._capacity = len(self.cluster.live)
        size = plan_bytes(self._capacity, len(self.scorers.all)) + REJECTION_BYTES * self._capacity
        most = max(1, min(MAX_PLANS, self.max_bytes // size))
        while len(self._equal_pods) > most:
            self._equal_pods.popitem(last=False)

    def __len__(self) -> int:
        return len(self._equal_pods)

    # Rejections

    def rejection(self, info: PodInfo, group: GroupAttempt | None = None) -> KeptRejection | None:
        """The last rejection of an equal pod, if this pod would be rejected in the same way now.

        None if PreFilter plugins have to be called for the pod: see `rejection_after_pre_filter`.
        """
        signature = self.signature(info)
        equal_pods = None if signature is None else self._equal_pods.get(signature)
        if (
            signature is None
            or equal_pods is None
            or equal_pods.rejection is None
            or equal_pods.pre_filter
            or self.rejections.has_nomination(info)
        ):
            return None
        self._equal_pods.move_to_end(signature)
        state = CycleState(info)
        state.group = group
        equal_pods.enter(state)
        state.skip_filter = equal_pods.skip_filter(())
        return self.rejections.current(equal_pods, state)

    def rejection_after_pre_filter(self, state: CycleState) -> KeptRejection | None:
        """The same, for a pod that all PreFilter plugins have skipped that had to be called."""
        equal_pods, info = state.equal_pods, state.pod_info
        if equal_pods is None or equal_pods.rejection is None or info is None:
            return None
        if self.rejections.has_nomination(info) or not skips_all_called(equal_pods, state):
            return None
        return self.rejections.current(equal_pods, state)

    def _register_nominated(self, nodes: frozenset[str] | None) -> None:
        """Register the terms of nominated pods, which count like placed pods."""
        for node in self.nominator.nominated_nodes() if nodes is None else nodes:
            for info in self.nominator.nominated_on(node):
                self.cluster.selected_labels.register_terms(info)

    # Results that equal pods share

    def _prepare(self, equal_pods: EqualPods, info: PodInfo, nodes: Nodes) -> None:
        """Call the plugins whose answers depend only on the pod, and collect those to call for every pod."""
        state, pod = CycleState(info), info.pod
        equal_pods.unconcerned = frozenset(
            name
            for name, values in self._concern.items()
            if not any(values(info)) or self._is_idle(name, info)
        )
        skip_filter = set(equal_pods.unconcerned)
        skip_score = {each.name for each in self.profile.pre_score if each.name in equal_pods.unconcerned}
        pre_filter: list[PreFilterPlugin] = []
        pre_score: list[PreScorePlugin] = []
        is_plain = True
        phases: Sequence[tuple[str, str, Sequence[Plugin], list[Any], set[str]]] = (
            ("pre_filter", "PreFilter", self.profile.pre_filter, pre_filter, skip_filter),
            ("pre_score", "PreScore", self.profile.pre_score, pre_score, skip_score),
        )
        for phase, point, plugins, called, skipped in phases:
            for plugin in plugins:
                inputs = self._statements.get(plugin.name)
                if plugin.name in skipped:
                    continue
                if inputs is None or getattr(inputs, phase) is not DependsOn.POD:
                    called.append(plugin)
                    continue
                self.calls.evaluated(plugin.name, point)
                answer = self.calls.call(plugin, point, getattr(plugin, phase), state, pod, nodes)
                is_plain = _record_skip(plugin, answer, skipped) and is_plain
        equal_pods.written = state.written()
        equal_pods.memory = {}
        equal_pods.pre_filter, equal_pods.pre_score = pre_filter, pre_score
        equal_pods.plan = self._plan_for(equal_pods, info, skip_filter, skip_score) if is_plain else None
        equal_pods.rejection = None
        equal_pods.rejection_versions = self.rejections.versions(equal_pods) if is_plain else None
        equal_pods.rejection_needs_plan = self.rejections.needs_plan(equal_pods)
        equal_pods.prepared(skip_filter, skip_score)

    def _is_idle(self, name: str, info: PodInfo) -> bool:
        """Whether the plugin ignores this pod according to its statement."""
        idle = self._idle.get(name)
        if idle is None:
            return False
        try:
            return bool(idle.is_idle(info))
        except Exception:
            logger.exception("plugin %r failed to say whether it is idle; it is asked", name)
            return False

    def _plan_for(
        self, equal_pods: EqualPods, info: PodInfo, skip_filter: set[str], skip_score: set[str]
    ) -> Plan | None:
        """The plan of these pods; fields that only plugins without caching read make no difference."""
        filters = [each for each in self.filters.all if each.name not in skip_filter]
        scorers = [each for each in self.scorers.all if each.name not in skip_score]
        # Filters after the first uncached one are not cached either, so that the order in which filters
        # reject a node, and which filters are called, are the same as without a plan.
        number = 0
        while number < len(filters) and self._is_kept_filter(filters[number]):
            number += 1
        kept_filters, equal_pods.uncached_filters = filters[:number], filters[number:]
        unconcerned = equal_pods.unconcerned
        kept_scorers = [
            each for each in scorers if each.name not in unconcerned and self._is_kept_scorer(each)
        ]
        names = tuple(each.name for each in kept_filters), tuple(each.name for each in kept_scorers)
        equal_pods.uncached_scorers = [
            each for each in scorers if each.name not in unconcerned and each not in kept_scorers
        ]
        equal_pods.kept_scorers = {name: index for index, name in enumerate(names[1])}
        equal_pods.scored_by = tuple(scorers)
        together = tuple(dict.fromkeys((*names[0], *names[1])))
        if together not in self._signers:
            stated = [self._statements[name] for name in together]
            self._signers[together] = signer(
                {field for inputs in stated for field in inputs.signed_fields}, labels=_labels_of(stated)
            )
        signature = self._signers[together](info)
        if signature is None:
            return None
        key = (*names, signature, info.priority)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = Plan(
                kept=self._kept(kept_filters, kept_scorers),
                priority=info.priority,
                table=self.cluster,
                nominator=self.nominator,
                filters=self.filters,
                scorers=self.scorers,
            )
        return plan

    def _kept(self, filters: Sequence[Filter], scorers: Sequence[Scorer]) -> Kept:
        by_filter = {each: self._statements[each.name].filter for each in filters}
        by_scorer = {each: self._statements[each.name].score for each in scorers}
        follow = (DependsOn.REQUESTS, DependsOn.NODE)
        names = [*(each.name for each in filters), *(each.name for each in scorers)]
        versions = (source for name in names for source in self._statements[name].versions)
        return Kept(
            filters=filters,
            object_filters=[each for each in filters if by_filter[each] not in follow],
            pod_filters=[each for each in filters if by_filter[each] in follow],
            scorers=[
                KeptScorer(each, 0 if each.normalizes else each.weight, by_scorer[each] in follow)
                for each in scorers
            ],
            normalizing=[(index, each) for index, each in enumerate(scorers) if each.normalizes],
            sees_pods=DependsOn.NODE in (*by_filter.values(), *by_scorer.values()),
            versions=tuple(dict.fromkeys(versions)),
        )

    def _is_kept_filter(self, each: Filter) -> bool:
        inputs = self._statements.get(each.name)
        return (
            inputs is not None
            and inputs.filter is not None
            and not inputs.filter.spans_nodes
            and inputs.pre_filter in (None, DependsOn.POD)
            and not isinstance(each.plugin, PreFilterExtensions)  # its data follows each what-if by itself
        )

    def _is_kept_scorer(self, each: Scorer) -> bool:
        inputs = self._statements.get(each.name)
        return (
            inputs is not None
            and inputs.score is not None
            and not inputs.score.spans_nodes
            and inputs.pre_score in (None, DependsOn.POD)
        )


def _labels_of(statements: Iterable[Inputs]) -> SelectedLabels | None:
    """The selected labels of the first statement that has any; plugins of one profile share the table."""
    return next((inputs.labels for inputs in statements if inputs.labels is not None), None)


def _is_kept_somewhere(inputs: Inputs) -> bool:
    """Whether any answer may be cached. Otherwise pods need not be equal for this plugin."""
    # PostFilter of such a plugin depends on nothing for pods that its PreFilter skips.
    names = [name for name in PHASES if name != "post_filter" or inputs.pre_filter is not DependsOn.ANYTHING]
    stated = [phase for name in names if (phase := getattr(inputs, name)) is not None]
    return not stated or any(phase is not DependsOn.ANYTHING for phase in stated)


def _prepares(inputs: Inputs) -> bool:
    """Whether it has phases other than PostFilter, whose results are kept separately."""
    return any(getattr(inputs, name) is not None for name in PHASES if name != "post_filter")


def _record_skip(plugin: Plugin, answer: object, skipped: set[str]) -> bool:
    """Add a plugin that returned Skip. False if it rejected the pod, narrowed the search or failed."""
    if isinstance(answer, Status) and answer.is_skip:
        skipped.add(plugin.name)
        return True
    return answer is None or (isinstance(answer, Status) and answer.is_success)
