"""Queueing hints for pods rejected by required affinity or anti-affinity.

In: the pod and an object before and after. Out: whether the change may help the pod. As upstream, namespace
selectors are matched against no labels here: only a selector that accepts missing labels matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kuberth.api.core import Node, Pod, PodAffinity, PodAntiAffinity
from kuberth.api.selectors.compiled_cache import CompiledCache
from kuberth.cluster.pod_info import AffinityTerm, compile_term
from kuberth.plugins.hints import has_node, is_same_pod


class AffinityHints:
    def __init__(self) -> None:
        self._terms = CompiledCache[tuple[AffinityTerm, ...]]()

    def pod_change_helps(self, pod: Pod, before: Pod | None, after: Pod | None) -> bool:
        if before is not None and after is not None and is_same_pod(after, pod):
            return True  # its own labels changed: other pods' terms may match it differently now
        if not all(has_node(changed) for changed in (before, after) if changed is not None):
            return False
        near, far = self._affinity_terms(pod), self._anti_affinity_terms(pod)
        if after is None:
            assert before is not None
            return _all_match(far, before) or _all_match(self._anti_affinity_terms(before), pod)
        if before is None:
            return _all_match(near, after)
        came = not _all_match(near, before) and _all_match(near, after)
        return came or (_all_match(far, before) and not _all_match(far, after))

    def topology_keys(self, pod: Pod) -> Iterable[str]:
        """The node labels whose change may help the pod."""
        return {term.topology_key for term in (*self._affinity_terms(pod), *self._anti_affinity_terms(pod))}

    def node_change_helps(self, pod: Pod, before: Node | None, after: Node) -> bool:
        near, far = self._affinity_terms(pod), self._anti_affinity_terms(pod)
        labels = after.metadata.labels
        if before is None:
            # Anti-affinity accepts any node without the key, and placed pods are not known here.
            return bool(far) or any(term.topology_key in labels for term in near)
        old = before.metadata.labels
        for term in near:
            if _enters_domain(term.topology_key, old, labels):
                return True
        return bool(far) and any(_enters_domain(term.topology_key, labels, old) for term in far)

    def _affinity_terms(self, pod: Pod) -> Sequence[AffinityTerm]:
        affinity = pod.spec.affinity
        return self._compiled(pod, None if affinity is None else affinity.pod_affinity)

    def _anti_affinity_terms(self, pod: Pod) -> Sequence[AffinityTerm]:
        affinity = pod.spec.affinity
        return self._compiled(pod, None if affinity is None else affinity.pod_anti_affinity)

    def _compiled(self, pod: Pod, affinity: PodAffinity | PodAntiAffinity | None) -> Sequence[AffinityTerm]:
        if affinity is None:
            return ()
        terms = affinity.required_during_scheduling_ignored_during_execution
        namespace = pod.metadata.namespace
        compiled = self._terms.get(terms, namespace)
        if compiled is None:
            compiled = tuple(compile_term(pod, term) for term in terms)
            lengths = (each.pods.selector.length + each.pods.namespace_selector.length for each in compiled)
            self._terms.put(terms, namespace, compiled, length=len(compiled) + sum(lengths))
        return compiled


def _enters_domain(key: str, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether a node with these labels enters a domain; with the labels swapped, whether it leaves one."""
    return key in after and after[key] != before.get(key)


def _all_match(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    """Whether all terms match the pod; False if there is none."""
    return bool(terms) and all(
        term.pods.matches(pod.metadata.namespace, pod.metadata.labels, {}) for term in terms
    )
