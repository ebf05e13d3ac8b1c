"""Writes claims to the API: allocated and reserved before a pod is bound, released if it is not.

In: a claim, the decided allocation, the pod. Out: the new version of the claim. Every write is a patch with
the resource version that it is based on, so unknown fields stay unchanged.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from kuberth.api.core import Pod, PodExtendedResourceClaimStatus
from kuberth.api.resource import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from kuberth.api.wire import to_builtins
from kuberth.client.protocol import Api
from kuberth.clock import NANOSECONDS, Clock
from kuberth.errors import AnswerLostError, ApiError, ConflictError, KuberthError, NotFoundError
from kuberth.informers.store import object_key
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.plugins.devices.claims import KnownClaims

logger = logging.getLogger(__name__)

T = TypeVar("T")
W = TypeVar("W", Pod, ResourceClaim)

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_NODE_RESOURCES: Final = "nodeAllocatableResourceClaimStatuses"
_INVALID: Final = 422
_ATTEMPTS: Final = 5
_PAUSE_SECONDS: Final = 0.01
_DOUBT_ATTEMPTS: Final = 60
_DOUBT_PAUSE_SECONDS: Final = 5.0


class ClaimWriteError(KuberthError):
    """A claim has changed since the pod's node was chosen; the pod has to be scheduled again."""


class ClaimWriter:
    def __init__(
        self,
        api: Api,
        claims: KnownClaims,
        clock: Clock,
        *,
        metrics: SchedulerMetrics,
        stamps: bool = True,
    ) -> None:
        """`stamps`: allocations have a timestamp, for the timeout of device preparation."""
        self._stamps = stamps
        self._api = api
        self._creates = metrics.resource_claim_creates
        self._claims = claims
        self._clock = clock
        self.in_doubt: set[str] = set()
        """UIDs of claims whose last write has an unknown result."""
        self._releases: dict[tuple[str, str], asyncio.Event] = {}
        """Pending releases, by UID of the claim and of the user: set when the response has arrived."""
        self._lost_releases: set[tuple[str, str]] = set()
        """Releases with an unknown result."""

    async def reserve(
        self,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        user: ResourceClaimConsumerReference,
        *,
        may_be_written: bool = False,
    ) -> ResourceClaim:
        """Write the allocation, if there is one, and the reservation.

        `may_be_written`: another pod of the group writes the same. Raises KuberthError. If others write to
        the claim meanwhile, it is read again.
        """
        name = object_key(claim)
        last: ApiError | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(_PAUSE_SECONDS)
                try:
                    claim = await self._read(claim)
                except ApiError as exc:
                    raise ClaimWriteError(f"get updated claim {name} after conflict: {exc}") from exc
                self.in_doubt.discard(claim.metadata.uid)
            # The response was lost, or another pod has written it for the whole group.
            if user in claim.status.reserved_for and _is_ours(claim, allocation):
                return claim
            try:
                unwritten = None if may_be_written and _is_ours(claim, allocation) else allocation
                return await self._reserve_once(claim, unwritten, user)
            except AnswerLostError as exc:
                self.in_doubt.add(claim.metadata.uid)
                last = exc
            except ConflictError as exc:
                last = exc
        assert last is not None
        raise last

    async def _reserve_once(
        self,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        user: ResourceClaimConsumerReference,
    ) -> ResourceClaim:
        name = object_key(claim)
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimWriteError(f"claim {name} got deleted in the meantime")
        status: dict[str, Any] = {}
        if allocation is not None:
            if claim.status.allocation is not None:
                raise ClaimWriteError(f"claim {name} got allocated elsewhere in the meantime")
            if FINALIZER not in claim.metadata.finalizers:
                claim = await _naming_failures(f"add finalizer to claim {name}", self._add_finalizer(claim))
            status["allocation"] = to_builtins(allocation)
        elif claim.status.allocation is None:
            raise ClaimWriteError(f"claim {name} got deallocated elsewhere in the meantime")
        written = claim.status.allocation
        if self._stamps and (written is None or written.allocation_timestamp is None):
            status.setdefault("allocation", {})["allocationTimestamp"] = self._now()
        # A patch puts new entries before existing ones, unless it contains these too.
        status["reservedFor"] = to_builtins((*claim.status.reserved_for, user))
        what = "allocation and reservation" if allocation is not None else "reservation"
        return await _naming_failures(
            f"add {what} to claim {name}", self._patch(claim, _precondition(claim), status)
        )

    def _now(self) -> str:
        now = datetime.datetime.fromtimestamp(self._clock.now_ns() // NANOSECONDS, datetime.UTC)
        return now.strftime("%Y-%m-%dT%H:%M:%SZ")

    async def _add_finalizer(self, claim: ResourceClaim) -> ResourceClaim:
        try:
            return await self._patch(claim, {**_precondition(claim), "finalizers": [FINALIZER]})
        except ApiError as exc:
            # A patch reorders parameters for drivers, which may count as a change.
            if exc.code != _INVALID:
                raise
            name, namespace = claim.metadata.name, claim.metadata.namespace
            changed = await self._api.add_finalizer(ResourceClaim, name, FINALIZER, namespace=namespace)
            if changed is None:
                raise
        if changed.metadata.uid != claim.metadata.uid or changed.status.allocation is not None:
            raise ConflictError(f"claim {object_key(claim)} changed in the meantime")
        return changed

    async def _patch(self, obj: W, metadata: dict[str, Any], status: dict[str, Any] | None = None) -> W:
        """Patch the object's metadata, or with `status` its status."""
        return await self._api.patch(
            type(obj),
            obj.metadata.name,
            {"metadata": metadata} if status is None else {"metadata": metadata, "status": status},
            namespace=obj.metadata.namespace,
            subresource="" if status is None else "status",
        )

    async def _read(self, claim: ResourceClaim) -> ResourceClaim:
        return await self._api.get(ResourceClaim, claim.metadata.name, namespace=claim.metadata.namespace)

    def release(
        self,
        claim: ResourceClaim,
        user: ResourceClaimConsumerReference,
        otherwise: Callable[[], None] | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Remove the reservation; the allocation stays. Never raises.

        On failure, `otherwise` is called.
        """
        self._releases[claim.metadata.uid, user.uid] = asyncio.Event()
        return self._release(claim, user, otherwise)

    async def _release(
        self,
        claim: ResourceClaim,
        user: ResourceClaimConsumerReference,
        otherwise: Callable[[], None] | None,
    ) -> None:
        release = claim.metadata.uid, user.uid
        answered = self._releases[release]
        status = {"reservedFor": [{"$patch": "delete", "uid": user.uid}]}
        try:
            self._claims.assume(await self._patch(claim, {"uid": claim.metadata.uid}, status))
        except ApiError as exc:
            logger.warning("claim %s is still reserved for %s: %s", object_key(claim), user.name, exc)
            if isinstance(exc, AnswerLostError):
                self._lost_releases.add(release)
            if otherwise is not None:
                otherwise()
        finally:
            answered.set()
            if self._releases.get(release) is answered:
                del self._releases[release]

    async def after_release(
        self, claim: ResourceClaim, user: ResourceClaimConsumerReference
    ) -> ResourceClaim:
        """The claim after pending releases by earlier attempts of its user. Raises ClaimWriteError.

        A new attempt may begin while the release of the last one is in flight.
        """
        release = claim.metadata.uid, user.uid
        if (answered := self._releases.get(release)) is not None:
            await answered.wait()
        if release in self._lost_releases:
            try:
                self._claims.assume(await self._read(claim))
            except ApiError as exc:
                raise ClaimWriteError(f"get claim {object_key(claim)} after its release: {exc}") from exc
            self._lost_releases.discard(release)
        known = self._claims.get_by_key(object_key(claim))
        return known if known is not None and known.metadata.uid == claim.metadata.uid else claim

    async def deallocate(self, claim: ResourceClaim, otherwise: Callable[[], None]) -> None:
        """Deallocate the claim. On failure, `otherwise` is called."""
        status = {"allocation": None, "reservedFor": None, "devices": None}
        try:
            await self._patch(claim, _precondition(claim), status)
        except ApiError as exc:
            logger.warning("claim %s could not be deallocated: %s", object_key(claim), exc)
            otherwise()

    # The claim for extended resources

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        try:
            created = await self._api.create(claim)
            self._creates.inc(("success",))
            return created
        except ApiError as exc:
            self._creates.inc(("failure",))
            key = object_key(claim)
            raise ClaimWriteError(f"create claim for extended resources {key}: {exc}") from exc

    async def delete(self, claim: ResourceClaim, otherwise: Callable[[], None] | None = None) -> None:
        """Delete the claim, its finalizer first. On failure, `otherwise` is called."""
        try:
            await self._delete(claim)
        except NotFoundError:
            pass
        except ApiError as exc:
            logger.warning("claim %s could not be deleted: %s", object_key(claim), exc)
            if otherwise is not None:
                otherwise()
            return
        self._claims.forget(claim)

    async def _delete(self, claim: ResourceClaim) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                if attempt:
                    await asyncio.sleep(_PAUSE_SECONDS)
                    claim = await self._read(claim)
                # Even if it is not known to have the finalizer: the version may be outdated.
                removal = {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}
                claim = await self._patch(claim, {**_precondition(claim), **removal})
                break
            except (ConflictError, AnswerLostError):
                if attempt == _ATTEMPTS - 1:
                    raise
        await self._api.delete(
            ResourceClaim,
            claim.metadata.name,
            namespace=claim.metadata.namespace,
            uid=claim.metadata.uid,
        )

    async def patch_pod_status(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        """Write the claim of the pod's extended resources to the pod's status."""
        await _naming_failures(
            f"update pod {object_key(pod)} ExtendedResourceClaimStatus",
            self._patch_pod(pod, {"extendedResourceClaimStatus": to_builtins(status)}),
        )

    async def patch_node_resources(self, pod: Pod) -> None:
        """Write the node resources of the pod's devices to the pod's status; it has no such entry yet."""
        taken = to_builtins(pod.status.node_allocatable_resource_claim_statuses)
        await _naming_failures(
            f"updating pod {object_key(pod)} NodeAllocatableResourceClaimStatuses",
            self._patch_pod(pod, {_NODE_RESOURCES: taken}),
        )

    async def clear_pod_status(self, pod: Pod) -> None:
        """Remove the node resources of the pod's devices from the pod's status. Never raises."""
        try:
            await self._patch_pod(pod, {_NODE_RESOURCES: None})
        except ApiError as exc:
            message = "the status of pod %s still contains node resources of its devices: %s"
            logger.warning(message, pod.metadata.name, exc)

    async def _patch_pod(self, pod: Pod, status: dict[str, Any]) -> Pod:
        return await self._patch(pod, {"uid": pod.metadata.uid}, status)

    # Unknown results

    async def resolve_doubt(self, claim: ResourceClaim, then: Callable[[], None]) -> None:
        """Find out whether a write with a lost response took effect; until then its devices stay reserved."""
        uid = claim.metadata.uid
        try:
            for _ in range(_DOUBT_ATTEMPTS):
                try:
                    found = await self._read(claim)
                except NotFoundError:
                    return
                except ApiError:
                    await asyncio.sleep(_DOUBT_PAUSE_SECONDS)
                    continue
                self._claims.assume(found)
                return
        finally:
            self.in_doubt.discard(uid)
            self._claims.end_pending(uid)
            then()


def _is_ours(claim: ResourceClaim, allocation: AllocationResult | None) -> bool:
    written = claim.status.allocation
    if written is None:
        return False
    return allocation is None or written.devices == allocation.devices


def _precondition(claim: ResourceClaim) -> dict[str, Any]:
    return {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}


async def _naming_failures(what: str, write: Awaitable[T]) -> T:
    """Prefix failures with the attempted operation; retried errors pass through."""
    try:
        return await write
    except (ConflictError, AnswerLostError):
        raise
    except ApiError as exc:
        raise ClaimWriteError(f"{what}: {exc}") from exc
