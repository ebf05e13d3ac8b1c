"""The incoming pod's own terms, to match against placed pods.

In: the pod of a cycle. Out: its derived terms, or what is wrong with them.
"""

from __future__ import annotations

from kuberth.api.core import Pod, PodAffinity, PodAntiAffinity
from kuberth.api.selectors import EVERYTHING
from kuberth.cluster.pod_info import AffinityTerm, PodInfo, PodMatcher, compile_term
from kuberth.errors import SelectorError
from kuberth.framework.cycle_state import CycleState


def incoming_pod(state: CycleState, pod: Pod) -> PodInfo:
    return state.pod_info if state.pod_info is not None else PodInfo(pod)


def asked_of_placed_pods(term: AffinityTerm) -> PodMatcher:
    """Which placed pods an incoming pod's term matches.

    Upstream evaluates the namespace selector twice, for all namespaces and then for no labels at all;
    therefore a selector that accepts missing labels (NotIn, DoesNotExist) accepts every namespace. It does
    not do so for the terms of placed pods, so this is not part of compiling terms.
    """
    pods = term.pods
    return pods._replace(namespace_selector=EVERYTHING) if pods.namespace_selector.matches({}) else pods


def broken_term(pod: Pod) -> str:
    """What is wrong with the pod's affinity terms; empty if all are valid."""
    affinity = pod.spec.affinity
    if affinity is None:
        return ""
    try:
        for terms in (affinity.pod_affinity, affinity.pod_anti_affinity):
            if terms is not None:
                _compile_all(pod, terms)
    except SelectorError as exc:
        return str(exc)
    return ""


def _compile_all(pod: Pod, terms: PodAffinity | PodAntiAffinity) -> None:
    for term in terms.required_during_scheduling_ignored_during_execution:
        compile_term(pod, term)
    for weighted in terms.preferred_during_scheduling_ignored_during_execution:
        compile_term(pod, weighted.pod_affinity_term)
