"""DaemonSet: one pod on every node that fits.

In: daemon sets, nodes, pods. Out: a pod for each node that its template's node affinity and tolerations
allow, tied to the node by affinity and bound by the scheduler like any other; rolling updates by
maxUnavailable or maxSurge; a ControllerRevision for every template, to go back to; the status that kubectl
reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kuberth.api.nodes import Node
from kuberth.api.pods import Pod
from kuberth.api.selectors import required_node_affinity
from kuberth.api.taints import find_untolerated
from kuberth.api.wire import convert
from kuberth.errors import KuberthError
from kuberth.local.apiserver.objects import Obj, by_age, key_of, labels_of, name_of
from kuberth.local.hollow.controllers.revisions import REVISION_LABEL, RevisionHistory
from kuberth.local.hollow.controllers.rollout import scaled
from kuberth.local.hollow.controlling import Controller
from kuberth.local.hollow.ownership import OWNER_INDEX, claim, pod_from_template
from kuberth.local.hollow.pod_states import is_finished, is_ready, node_of, seconds_to_available
from kuberth.local.hollow.working import coalesce_seconds, wait_all
from kuberth.text.timestamps import seconds_since

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE_NAME: Final = "metadata.name"
_BURST: Final = 250
_RETRY_SECONDS: Final = 1.0
"""The minimum time between two replacements of a failed pod."""
_TOLERATED: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
_TOLERATED_BY_HOST_NETWORK: Final = (("network-unavailable", "NoSchedule"),)


class _Work(NamedTuple):
    """A daemon set, and what is on the nodes."""

    owner: Obj
    on_node: dict[str, list[Obj]]
    """Its pods by the name of their node."""
    verdicts: dict[str, tuple[bool, bool]]
    """Whether a pod should run, and whether a running one may continue, by name of the node."""
    revision: str

    @property
    def wanted(self) -> list[str]:
        return [node for node, (should_run, _) in self.verdicts.items() if should_run]


class DaemonSetController(Controller):
    name = "daemonset"
    component = "daemonset-controller"

    def set_up(self) -> None:
        self._queue = self.queue_of("daemonsets.apps", self._sync)
        self._sets = self.watch("daemonsets.apps", self._queue.add_changed)
        self._pods = self.watch_owned("pods", self._queue, kind="DaemonSet", coalesce=True)
        self._nodes = self.watch("nodes", self._queue_all)
        self._history = RevisionHistory(self, hash_label=REVISION_LABEL)

    def _queue_all(self, old: Obj | None, new: Obj | None) -> None:
        if old is not None and new is not None and old is not new and _placement(old) == _placement(new):
            return
        for owner in self._sets.all():
            pods = self._pods.count(OWNER_INDEX, owner["metadata"]["uid"])
            self._queue.add_after(key_of(owner), coalesce_seconds(pods))

    async def _sync(self, owner: Obj) -> float | None:
        owned = await claim(self._pods, owner)
        on_node: dict[str, list[Obj]] = {}
        for pod in owned:
            on_node.setdefault(_target(pod), []).append(pod)
        versions = await self._history.versions(owner)
        revision = labels_of(versions.update).get(REVISION_LABEL, "")
        work, wait = _Work(owner, on_node, self._verdicts(owner), revision), None
        if not self._sets.is_terminating(owner):
            live = {labels_of(pod).get(REVISION_LABEL) for pod in owned}
            used = {name_of(one) for one in versions.history if labels_of(one).get(REVISION_LABEL) in live}
            await self._history.clean_up(owner, versions, used=used)
            wait = await self._manage(work)
            await self._update(work)
        later = await self._write_status(work)
        return min((each for each in (wait, later) if each is not None), default=None)

    def _verdicts(self, owner: Obj) -> dict[str, tuple[bool, bool]]:
        template = owner["spec"]["template"]
        spec = {**template.get("spec", {}), "tolerations": _tolerations(template.get("spec", {}))}
        pod = convert(Pod, {"metadata": {"name": "x", "namespace": "x"}, "spec": spec})
        affinity = required_node_affinity(pod)
        verdicts = {}
        for found in self._nodes.all():
            node = convert(Node, found)
            name = name_of(found)
            fits = pod.spec.node_name in ("", name)
            try:
                fits = fits and affinity.matches(node.metadata.labels, name)
            except KuberthError:
                fits = False  # an affinity that cannot be read matches no node
            taints, tolerations = node.spec.taints, pod.spec.tolerations
            verdicts[name] = (
                fits and find_untolerated(taints, tolerations) is None,
                fits and find_untolerated(taints, tolerations, ("NoExecute",)) is None,
            )
        return verdicts

    async def _manage(self, work: _Work) -> float | None:
        """Create missing pods and delete surplus ones; seconds until the next attempt after a failure."""
        owner, on_node, verdicts, revision = work
        waits, missing, leaving = [], [], []
        for node, (should_run, _) in verdicts.items():
            present = [pod for pod in on_node.get(node, ()) if not self._pods.is_terminating(pod)]
            failed = [pod for pod in present if is_finished(pod)]
            alive = [pod for pod in present if not is_finished(pod)]
            if should_run and failed:
                age = min(
                    seconds_since(pod["metadata"].get("creationTimestamp"), self._clock) for pod in failed
                )
                if age < _RETRY_SECONDS:
                    waits.append(_RETRY_SECONDS - age)
                    continue
                leaving += failed
            if should_run and not on_node.get(node):
                missing.append(node)
            leaving += self._doubled(owner, alive, revision)
        for node, pods in on_node.items():
            if not verdicts.get(node, (False, False))[1]:
                leaving += [pod for pod in pods if not self._pods.is_terminating(pod) and pod not in leaving]
        await wait_all(self._pods.delete(pod) for pod in leaving[:_BURST])
        with self.reporting_refusals(owner):
            bodies = [_new_pod(owner, node, revision) for node in missing[:_BURST]]
            made = await wait_all(self._pods.create(body) for body in bodies)
        for node, pod in zip(missing, made, strict=False):
            on_node[node] = [pod]
        if len(missing) > _BURST or len(leaving) > _BURST:
            self._queue.add(key_of(owner))
        return min(waits, default=None)

    def _doubled(self, owner: Obj, alive: Sequence[Obj], revision: str) -> list[Obj]:
        """Surplus pods of a node; with maxSurge a new pod may run beside an old one for a while."""
        if _surge(owner, 1) == 0:
            return sorted(alive, key=_age)[1:]
        new, old = _split(alive, revision)
        if new and self._wait(owner, new[0]) == 0:
            return [*new[1:], *old]
        return [*new[1:], *old[1:]]

    async def _update(self, work: _Work) -> None:
        """Take one step towards the newest template on every node."""
        owner, on_node, _, revision = work
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        on_wanted = {node: _split(self._alive(on_node.get(node, ())), revision) for node in work.wanted}
        surge = _surge(owner, len(on_wanted))
        if surge:
            await self._surge(owner, on_wanted, revision, surge)
            return
        rolling = strategy.get("rollingUpdate") or {}
        budget = scaled(rolling.get("maxUnavailable", 1), len(on_wanted), up=True) or 1
        # Delete old pods as far as availability allows, unavailable ones first; new ones replace them.
        useless, useful, unavailable = [], [], 0
        for new, old in on_wanted.values():
            if any(self._wait(owner, pod) == 0 for pod in (*new, *old)):
                useful += old
            else:
                unavailable += 1
                useless += old
        allowed = max(0, budget - unavailable)
        await wait_all(self._pods.delete(pod) for pod in [*useless, *useful[:allowed]])

    async def _surge(
        self, owner: Obj, on_wanted: dict[str, tuple[list[Obj], list[Obj]]], revision: str, surge: int
    ) -> None:
        """Create new pods beside old ones; `_doubled` deletes the old ones when the new are available."""
        at_once, in_turn, doubled = [], [], 0
        for node, (new, old) in on_wanted.items():
            if new and old:
                doubled += 1
            elif old and self._wait(owner, old[0]) == 0:
                in_turn.append(node)
            elif old:
                at_once.append(node)  # the old one is not available anyway
        nodes = [*at_once, *in_turn[: max(0, surge - doubled)]]
        await wait_all(self._pods.create(_new_pod(owner, node, revision)) for node in nodes[:_BURST])

    def _alive(self, pods: Sequence[Obj]) -> list[Obj]:
        return [pod for pod in pods if not self._pods.is_terminating(pod) and not is_finished(pod)]

    def _wait(self, owner: Obj, pod: Obj) -> float | None:
        return seconds_to_available(pod, owner, clock=self._clock)

    async def _write_status(self, work: _Work) -> float | None:
        owner, on_node, _, revision = work
        wanted = work.wanted
        alive = {node: self._alive(pods) for node, pods in on_node.items()}
        # Of a node the ready pod counts, and the newer of two ready ones.
        ordered = [[*new, *old] for node in wanted for new, old in [_split(alive.get(node, ()), revision)]]
        first = [max(pods, key=is_ready) for pods in ordered if pods]
        waits = [self._wait(owner, pod) for pod in first]
        available = sum(seconds == 0 for seconds in waits)
        counts = {
            "updatedNumberScheduled": sum(labels_of(pod).get(REVISION_LABEL) == revision for pod in first),
            "numberAvailable": available,
            "numberUnavailable": len(wanted) - available,
        }
        status = {
            "currentNumberScheduled": len(first),
            "numberMisscheduled": sum(bool(pods) for node, pods in alive.items() if node not in wanted),
            "desiredNumberScheduled": len(wanted),
            "numberReady": sum(map(is_ready, first)),
            "observedGeneration": owner["metadata"].get("generation", 0),
            **{name: count for name, count in counts.items() if count},
        }
        await self._sets.write_status(owner, status)
        return min((seconds for seconds in waits if seconds), default=None)


def _split(pods: Sequence[Obj], revision: str) -> tuple[list[Obj], list[Obj]]:
    """Pods of the newest template, and all others."""
    ordered = sorted(pods, key=_age)
    new = [pod for pod in ordered if labels_of(pod).get(REVISION_LABEL) == revision]
    return new, [pod for pod in ordered if pod not in new]


def _surge(owner: Obj, wanted: int) -> int:
    rolling = (owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return scaled(rolling.get("maxSurge", 0), wanted, up=True)


def _placement(node: Obj) -> tuple[Any, ...]:
    """The fields that decide whether a node gets a pod."""
    return labels_of(node), node.get("spec", {}).get("taints")


def _age(pod: Obj) -> tuple[str, str, str]:
    """Sort key: bound pods first, then older ones, which are kept."""
    return "" if node_of(pod) else "unbound", *by_age(pod)


def _target(pod: Obj) -> str:
    """The node a pod is on, or is meant for."""
    if node := node_of(pod):
        return node
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms", ()):
        for field in term.get("matchFields", ()):
            if field.get("key") == _NODE_NAME and field.get("operator") == "In" and field.get("values"):
                return str(field["values"][0])
    return ""


def _tolerations(spec: Obj) -> list[Obj]:
    """The template's tolerations, and those that every daemon pod has for taints of unhealthy nodes."""
    taints = (*_TOLERATED, *(_TOLERATED_BY_HOST_NETWORK if spec.get("hostNetwork") else ()))
    standard = [
        {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
        for name, effect in taints
    ]
    given = spec.get("tolerations") or []
    return [*given, *(each for each in standard if each not in given)]


def _new_pod(owner: Obj, node: str, revision: str) -> Obj:
    pod = pod_from_template(owner)
    metadata, spec = pod["metadata"], dict(pod["spec"])
    metadata["labels"] = {**metadata.get("labels", {}), REVISION_LABEL: revision}
    affinity = dict(spec.get("affinity") or {})
    term = {"matchFields": [{"key": _NODE_NAME, "operator": "In", "values": [node]}]}
    affinity["nodeAffinity"] = {
        **(affinity.get("nodeAffinity") or {}),
        _REQUIRED: {"nodeSelectorTerms": [term]},
    }
    return {**pod, "spec": {**spec, "affinity": affinity, "tolerations": _tolerations(spec)}}
