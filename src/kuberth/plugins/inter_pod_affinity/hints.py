"""Queueing hints for pods rejected by required affinity or anti-affinity.

In: the pod and an object before and after. Out: whether to retry the pod. As upstream, namespace selectors
are matched against no labels here: only a selector that accepts missing labels matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kuberth.api.core import Node, Pod, PodAffinity, PodAntiAffinity
from kuberth.api.selectors.remembering import Remembered
from kuberth.cluster.pod_info import AffinityTerm, compile_term
from kuberth.framework.cluster_events import Hint
from kuberth.framework.hint_objects import before_and_after


class AffinityHints:
    def __init__(self) -> None:
        self._terms = Remembered[tuple[AffinityTerm, ...]]()

    def after_pod_change(self, pod: Pod, old: object, new: object) -> Hint:
        before, after = before_and_after(Pod, old, new)
        if before is not None and after is not None and after.metadata.uid == pod.metadata.uid:
            # Its own labels changed: other pods' terms may match it differently now.
            return Hint.QUEUE
        if any(changed is not None and not _has_node(changed) for changed in (before, after)):
            return Hint.SKIP
        near, far = self._near(pod), self._far(pod)
        if before is not None and after is not None:
            came = not _all_match(near, before) and _all_match(near, after)
            left = _all_match(far, before) and not _all_match(far, after)
            return _queue_if(came or left)
        if after is not None:
            return _queue_if(_all_match(near, after))
        if before is None:
            raise TypeError("a hint for pod events was called without a pod")
        return _queue_if(_all_match(far, before) or _all_match(self._far(before), pod))

    def topology_keys(self, pod: Pod) -> Iterable[str]:
        """The node labels whose change may help the pod."""
        return {term.topology_key for term in (*self._near(pod), *self._far(pod))}

    def after_node_change(self, pod: Pod, old: object, new: object) -> Hint:
        before, after = before_and_after(Node, old, new)
        if after is None:
            raise TypeError("a hint for node events was called without a node")
        near, far = self._near(pod), self._far(pod)
        labels = after.metadata.labels
        if before is None:
            # Anti-affinity accepts any node without the key, and placed pods are not known here.
            return _queue_if(bool(far) or any(term.topology_key in labels for term in near))
        old_labels = before.metadata.labels
        for term in near:
            value = labels.get(term.topology_key)
            if value is not None and value != old_labels.get(term.topology_key):
                return Hint.QUEUE
        for term in far:
            old_value = old_labels.get(term.topology_key)
            if old_value is not None and old_value != labels.get(term.topology_key):
                return Hint.QUEUE
        return Hint.SKIP

    def _near(self, pod: Pod) -> Sequence[AffinityTerm]:
        return self._compiled(pod, pod.spec.affinity.pod_affinity if pod.spec.affinity is not None else None)

    def _far(self, pod: Pod) -> Sequence[AffinityTerm]:
        return self._compiled(
            pod, pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
        )

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


def _has_node(pod: Pod) -> bool:
    return bool(pod.spec.node_name or pod.status.nominated_node_name)


def _all_match(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    """Whether all terms match the pod; False if there is none."""
    return bool(terms) and all(
        term.pods.matches(pod.metadata.namespace, pod.metadata.labels, {}) for term in terms
    )


def _queue_if(reason: bool) -> Hint:
    return Hint.QUEUE if reason else Hint.SKIP
