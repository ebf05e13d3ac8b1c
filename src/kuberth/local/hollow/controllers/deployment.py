"""Deployment: a replica set for each version of its template, with rollouts between them.

In: deployments, their replica sets, and pods (Recreate waits for the last one). Out: replica sets created,
resized and cleaned up, revisions, and the status for `kubectl rollout status` with upstream's conditions
Available, Progressing and ReplicaFailure.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

import msgspec

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import (
    Obj,
    annotated_number,
    by_age,
    condition,
    find_condition,
    key_of,
    name_of,
    namespace_of,
    with_metadata,
    without_condition,
)
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.controllers import rollout
from kuberth.local.hollow.controllers.rollout import (
    HASH_LABEL,
    REVISION,
    available_of,
    fenceposts,
    replicas_of,
)
from kuberth.local.hollow.controlling import Controller
from kuberth.local.hollow.ownership import OWNER_INDEX, claim, index_owners, owner_key, reference_to
from kuberth.local.hollow.pod_states import is_finished
from kuberth.text.timestamps import seconds_since, stamp

_KIND: Final = "Deployment"
_HISTORY: Final = "deployment.kubernetes.io/revision-history"
_NOT_COPIED: Final = {
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    _HISTORY,
    rollout.DESIRED,
    rollout.MAXIMUM,
    "deprecated.deployment.rollback.to",
}
_SAFE_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class DeploymentController(Controller):
    name = "deployment"
    component = "deployment-controller"

    def set_up(self) -> None:
        self._queue = self.queue_of("deployments.apps", self._sync)
        self._deployments = self.watch("deployments.apps", self._queue.add_changed)
        self._sets = self.watch_owned("replicasets.apps", self._queue, kind=_KIND)
        self._pods = self.watch("pods", self._queue_owner_of_set)
        index_owners(self._pods)

    def _queue_owner_of_set(self, old: Obj | None, new: Obj | None) -> None:
        """Recreate continues when the last old pod is gone, which its replica set's status does not show."""
        if old is None or (new is not None and not is_finished(new)):
            return
        key = owner_key(old, "ReplicaSet")
        replica_set = None if key is None else self._sets.get(key)
        if replica_set is not None and (owner := owner_key(replica_set, _KIND)) is not None:
            self._queue.add(owner)

    async def _sync(self, deployment: Obj) -> float | None:
        sets = await claim(self._sets, deployment)
        new, old = _split(deployment, sets)
        if self._deployments.is_terminating(deployment):
            return await self._write_status(deployment, new, old)
        if deployment["spec"].get("paused") or rollout.is_scaling(deployment, sets):
            return await self._resize(deployment, new, old)
        return await self._roll(deployment, new, old)

    async def _resize(self, deployment: Obj, new: Obj | None, old: list[Obj]) -> float | None:
        if new is not None:
            deployment, new = await self._sync_revision(deployment, new, old)
        new, old = await self._apply(rollout.scaling_sizes(deployment, new, old), deployment, new, old)
        return await self._write_status(deployment, new, old)

    async def _roll(self, deployment: Obj, new: Obj | None, old: list[Obj]) -> float | None:
        progress: Obj | None = None
        recreate = rollout.is_recreate(deployment)
        old_pods = recreate and self._has_pods(old)
        if new is not None:
            deployment, new = await self._sync_revision(deployment, new, old)
        elif not recreate or not (old_pods or any(map(replicas_of, old))):
            deployment, new = await self._create(deployment, old)
            progress = progressing("NewReplicaSetCreated", f'Created new replica set "{name_of(new)}"')
        if recreate:
            sizes = rollout.recreate_sizes(deployment, new, old, old_pods=old_pods)
        else:
            assert new is not None  # a rolling update made it above
            sizes = rollout.rolling_sizes(deployment, new, old)
        new, old = await self._apply(sizes, deployment, new, old)
        if not sizes:
            await self._clean_up(deployment, old)
        return await self._write_status(deployment, new, old, progress=progress, rolling=True)

    def _has_pods(self, sets: Sequence[Obj]) -> bool:
        return any(
            not is_finished(pod)
            for replica_set in sets
            for pod in self._pods.by(OWNER_INDEX, replica_set["metadata"]["uid"])
        )

    async def _apply(
        self, sizes: rollout.Sizes, deployment: Obj, new: Obj | None, old: list[Obj]
    ) -> tuple[Obj | None, list[Obj]]:
        """Write new sizes; the replica sets afterwards."""
        old = [await self._scale(each, sizes, deployment) for each in old]
        return None if new is None else await self._scale(new, sizes, deployment), old

    async def _scale(self, replica_set: Obj, sizes: rollout.Sizes, deployment: Obj) -> Obj:
        name = name_of(replica_set)
        if name not in sizes:
            return replica_set
        before, size = replicas_of(replica_set), sizes[name]
        annotations = replica_set["metadata"].get("annotations") or {}
        marked = annotations | rollout.marks(deployment)
        if size == before and marked == annotations:
            return replica_set
        resized = {**replica_set, "spec": {**replica_set["spec"], "replicas": size}}
        written = await self._sets.update(with_metadata(resized, annotations=marked))
        if size != before:
            self._record_scaled(deployment, name, before, size)
        return written

    def _record_scaled(self, deployment: Obj, name: str, before: int, size: int) -> None:
        direction = "up" if size > before else "down"
        message = f"Scaled {direction} replica set {name} from {before} to {size}"
        self.record(deployment, "ScalingReplicaSet", message)

    # Revisions

    async def _create(self, deployment: Obj, old: Sequence[Obj]) -> tuple[Obj, Obj]:
        body = self._new_set(deployment, old)
        try:
            new = await self._sets.create(body)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                message = f'Failed to create new replica set "{name_of(body)}": {error}'
                failed = {**progressing("ReplicaSetCreateError", message), "status": "False"}
                await self._write_status(deployment, None, old, progress=failed)
                raise
            present = await self._sets.fetch(key_of(body))
            if present is None or not _is_version_of(deployment, present):
                # Another owner's, or another template with the same hash: use another hash next time.
                status = deployment.get("status", {})
                count = int(status.get("collisionCount", 0)) + 1
                await self._deployments.write_status(deployment, {**status, "collisionCount": count})
                raise
            new = present
        else:
            if size := replicas_of(new):
                self._record_scaled(deployment, name_of(new), 0, size)
        return await self._copy_revision(deployment, new), new

    def _new_set(self, deployment: Obj, old: Sequence[Obj]) -> Obj:
        spec = deployment["spec"]
        template = spec["template"]
        hash_ = template_hash(template, int(deployment.get("status", {}).get("collisionCount", 0)))
        metadata = template.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), HASH_LABEL: hash_}
        selector = spec["selector"]
        matching = {**(selector.get("matchLabels") or {}), HASH_LABEL: hash_}
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                # Truncated as upstream, to stay a name.
                "name": f"{name_of(deployment)[: 252 - len(hash_)]}-{hash_}",
                "namespace": namespace_of(deployment),
                "labels": labels,
                "annotations": _annotations(deployment, {}, revision=_next_revision(old))
                | rollout.marks(deployment),
                "ownerReferences": [reference_to(deployment)],
            },
            "spec": {
                "replicas": rollout.first_size(deployment, old),
                "selector": {**selector, "matchLabels": matching},
                "template": {**template, "metadata": {**metadata, "labels": labels}},
                **({"minReadySeconds": spec["minReadySeconds"]} if spec.get("minReadySeconds") else {}),
            },
        }

    async def _sync_revision(self, deployment: Obj, new: Obj, old: Sequence[Obj]) -> tuple[Obj, Obj]:
        """Give the newest set the highest revision, also after a rollback, and copy it to the deployment."""
        present = new["metadata"].get("annotations") or {}
        annotations = _annotations(deployment, present, revision=_next_revision(old))
        min_ready = deployment["spec"].get("minReadySeconds", 0)
        if annotations != present or new["spec"].get("minReadySeconds", 0) != min_ready:
            new = {**new, "spec": {**new["spec"], "minReadySeconds": min_ready}}
            new = await self._sets.update(with_metadata(new, annotations=annotations))
        return await self._copy_revision(deployment, new), new

    async def _copy_revision(self, deployment: Obj, new: Obj) -> Obj:
        revision = new["metadata"]["annotations"].get(REVISION, "")
        annotations = deployment["metadata"].get("annotations") or {}
        if annotations.get(REVISION) == revision:
            return deployment
        annotations = {**annotations, REVISION: revision}
        return await self._deployments.update(with_metadata(deployment, annotations=annotations))

    async def _clean_up(self, deployment: Obj, old: Sequence[Obj]) -> None:
        """Keep the last `revisionHistoryLimit` versions for a rollback."""
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        idle = [each for each in old if not self._sets.is_terminating(each)]
        for each in sorted(idle, key=_revision)[: max(0, len(idle) - limit)]:
            if not replicas_of(each) and not each.get("status", {}).get("replicas"):
                await self._sets.delete(each)

    async def _write_status(
        self,
        deployment: Obj,
        new: Obj | None,
        old: Sequence[Obj],
        *,
        progress: Obj | None = None,
        rolling: bool = False,
    ) -> float | None:
        status = deployment_status(
            deployment, new, old, clock=self._clock, progress=progress, rolling=rolling
        )
        deployment = await self._deployments.write_status(deployment, status)
        return seconds_to_deadline(deployment, clock=self._clock) if rolling else None


def template_hash(template: Obj, collisions: int) -> str:
    """A stable hash of a template, safe in a name."""
    text = msgspec.json.encode(template, order="deterministic")
    return "".join(
        _SAFE_LETTERS[ord(digit) % len(_SAFE_LETTERS)] for digit in str(zlib.crc32(text, collisions))
    )


def _split(deployment: Obj, sets: Sequence[Obj]) -> tuple[Obj | None, list[Obj]]:
    """The set of the current template (the oldest, if there are several), and all others."""
    same = [each for each in sets if _same_template(deployment, each)]
    new = min(same, key=by_age, default=None)
    return new, [each for each in sets if each is not new]


def _same_template(deployment: Obj, replica_set: Obj) -> bool:
    return _without_hash(deployment["spec"]["template"]) == _without_hash(replica_set["spec"]["template"])


def _without_hash(template: Obj) -> Obj:
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


def _is_version_of(deployment: Obj, replica_set: Obj) -> bool:
    uid = deployment["metadata"]["uid"]
    references = replica_set["metadata"].get("ownerReferences") or ()
    owned = any(reference.get("uid") == uid for reference in references)
    return owned and _same_template(deployment, replica_set)


def _revision(replica_set: Obj) -> int:
    return annotated_number(replica_set, REVISION) or 0


def _next_revision(old: Sequence[Obj]) -> int:
    return 1 + max(map(_revision, old), default=0)


def _annotations(deployment: Obj, present: Obj, *, revision: int) -> Obj:
    """A new set's annotations: the deployment's, and a revision that only grows."""
    copied = {
        key: value
        for key, value in (deployment["metadata"].get("annotations") or {}).items()
        if key not in _NOT_COPIED
    }
    annotations = {**present, **copied}
    before = present.get(REVISION, "")
    if not before.isdecimal() or int(before) < revision:
        annotations[REVISION] = str(revision)
        if before:
            annotations[_HISTORY] = ",".join(filter(None, (present.get(_HISTORY), before)))[-2000:]
    return annotations


_NO_DEADLINE = 2**31 - 1


def progressing(reason: str, message: str) -> Obj:
    return condition("Progressing", True, reason, message)


def deployment_status(
    deployment: Obj, new: Obj | None, old: Sequence[Obj], *, clock: Clock, progress: Obj | None, rolling: bool
) -> Obj:
    """`progress` is a Progressing condition to set first; `rolling`: update it from the counts."""
    sets = [*old, *([] if new is None else [new])]
    available = sum(map(available_of, sets))
    counts = {
        "replicas": _total(sets, "replicas"),
        "updatedReplicas": 0 if new is None else _total([new], "replicas"),
        "readyReplicas": _total(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(map(replicas_of, sets)) - available),
    }
    before = deployment.get("status", {})
    status: Obj = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        **{name: count for name, count in counts.items() if count},
        "terminatingReplicas": _total(sets, "terminatingReplicas"),
    }
    if "collisionCount" in before:
        status["collisionCount"] = before["collisionCount"]
    now = stamp(clock)
    conditions = _set(before.get("conditions") or [], _availability(deployment, available), now)
    if _deadline(deployment) is None:
        conditions = without_condition(conditions, "Progressing")
    else:
        for condition in filter(None, (progress, _paused(deployment))):
            conditions = _set(conditions, condition, now)
        if rolling:
            conditions = _rolling_conditions(deployment, new, {**status, "conditions": conditions}, clock)
    status["conditions"] = _with_failures(conditions, new, old)
    return status


def seconds_to_deadline(deployment: Obj, *, clock: Clock) -> float | None:
    """When to check again whether a rollout is stuck; None if there is no rollout."""
    condition, deadline = find_condition(deployment, "Progressing"), _deadline(deployment)
    if condition is None or deadline is None:
        return None
    if condition.get("reason") == "ProgressDeadlineExceeded":
        return None
    if _is_complete(deployment, deployment["status"]):
        return None
    # Timestamps are whole seconds: one more, so that the deadline has really passed then.
    return max(1.0, deadline - seconds_since(condition.get("lastUpdateTime"), clock) + 1.0)


def _rolling_conditions(deployment: Obj, new: Obj | None, status: Obj, clock: Clock) -> list[Obj]:
    conditions: list[Obj] = status["conditions"]
    current = find_condition({"status": status}, "Progressing")
    reason = current.get("reason") if current is not None else ""
    if reason == "NewReplicaSetAvailable" and status.get("replicas", 0) == status.get("updatedReplicas", 0):
        return conditions
    now = stamp(clock)
    subject = f'Deployment "{name_of(deployment)}"' if new is None else f'ReplicaSet "{name_of(new)}"'
    if _is_complete(deployment, status):
        done = progressing("NewReplicaSetAvailable", f"{subject} has successfully progressed.")
        return _set(conditions, done, now)
    if _has_moved(deployment.get("status", {}), status):
        moving = progressing("ReplicaSetUpdated", f"{subject} is progressing.")
        # Unlike any other condition this one is renewed while it stays the same: it carries the deadline.
        since = current.get("lastTransitionTime", now) if current and current.get("status") == "True" else now
        rest = without_condition(conditions, "Progressing")
        return [*rest, {**moving, "lastUpdateTime": now, "lastTransitionTime": since}]
    if current is not None and _has_timed_out(deployment, current, clock):
        late = progressing("ProgressDeadlineExceeded", f"{subject} has timed out progressing.")
        return _set(conditions, {**late, "status": "False"}, now)
    return conditions


def _is_complete(deployment: Obj, status: Obj) -> bool:
    wanted = replicas_of(deployment)
    counted = all(
        status.get(name, 0) == wanted for name in ("replicas", "updatedReplicas", "availableReplicas")
    )
    return counted and status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)


def _has_moved(before: Obj, after: Obj) -> bool:
    if any(after.get(name, 0) > before.get(name, 0) for name in _GROWING):
        return True
    return _outdated(after) < _outdated(before)


_GROWING = ("updatedReplicas", "readyReplicas", "availableReplicas")


def _outdated(status: Obj) -> int:
    return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))


def _has_timed_out(deployment: Obj, current: Obj, clock: Clock) -> bool:
    deadline = _deadline(deployment)
    if deadline is None or current.get("reason") == "NewReplicaSetAvailable":
        return False
    return seconds_since(current.get("lastUpdateTime"), clock) > deadline


def _deadline(deployment: Obj) -> int | None:
    seconds = deployment["spec"].get("progressDeadlineSeconds", 600)
    return None if seconds is None or seconds == _NO_DEADLINE else int(seconds)


def _availability(deployment: Obj, available: int) -> Obj:
    _, unavailable = fenceposts(deployment)
    if available >= replicas_of(deployment) - unavailable:
        reason, message = "MinimumReplicasAvailable", "Deployment has minimum availability."
        return condition("Available", True, reason, message)
    reason, message = "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
    return condition("Available", False, reason, message)


def _paused(deployment: Obj) -> Obj | None:
    """The condition for a pause or resume, which stops and restarts the deadline unless it has passed."""
    current = find_condition(deployment, "Progressing")
    reason = current.get("reason") if current is not None else ""
    if reason == "ProgressDeadlineExceeded":
        return None
    if deployment["spec"].get("paused"):
        return {**progressing("DeploymentPaused", "Deployment is paused"), "status": "Unknown"}
    if reason == "DeploymentPaused":
        return {**progressing("DeploymentResumed", "Deployment is resumed"), "status": "Unknown"}
    return None


def _with_failures(conditions: list[Obj], new: Obj | None, old: Sequence[Obj]) -> list[Obj]:
    """The first ReplicaFailure of its replica sets, the newest set's before the others'."""
    for replica_set in (*([] if new is None else [new]), *old):
        failure = find_condition(replica_set, "ReplicaFailure")
        if failure is not None:
            return _set(conditions, failure, failure.get("lastTransitionTime", ""))
    return without_condition(conditions, "ReplicaFailure")


def _set(conditions: Sequence[Obj], condition: Obj, now: str) -> list[Obj]:
    """The conditions with this one; with the same status and reason nothing changes, not even the message."""
    old = next((entry for entry in conditions if entry.get("type") == condition["type"]), None)
    if old is None:
        return [*conditions, {**condition, "lastUpdateTime": now, "lastTransitionTime": now}]
    if (old.get("status"), old.get("reason")) == (condition.get("status"), condition.get("reason")):
        return list(conditions)
    since = old.get("lastTransitionTime", now) if old.get("status") == condition.get("status") else now
    rest = without_condition(conditions, condition["type"])
    return [*rest, {**condition, "lastUpdateTime": now, "lastTransitionTime": since}]


def _total(sets: Sequence[Obj], count: str) -> int:
    return sum(int(each.get("status", {}).get(count, 0)) for each in sets)
