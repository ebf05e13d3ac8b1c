"""Sorts a pod's claims by what is to be done about them.

In: the claims that its volumes name. Out: the bound ones, those that wait for a consumer with their
requirements, and whether any is late; or why the pod cannot be scheduled with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kuberth.api.core import PersistentVolumeClaim, Pod, Volume
from kuberth.api.quantity import Quantity, parse
from kuberth.api.selectors import Selector, compile_label_selector
from kuberth.api.storage import StorageClass
from kuberth.errors import QuantityError, SelectorError
from kuberth.framework.status import Status
from kuberth.informers.store import Store, object_key
from kuberth.plugins.volume_binding.assumptions import Assumptions
from kuberth.plugins.volumes.claims import (
    WAIT_FOR_FIRST_CONSUMER,
    ClaimUse,
    claim_class,
    claim_not_found,
    claims_of,
    ownership_problem,
)

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
FILESYSTEM: Final = "Filesystem"
_NANO: Final = 9
_MAX_EXPONENT: Final = 1000


@dataclass(frozen=True, slots=True)
class WaitingClaim:
    """A claim that gets a volume when the pod gets a node, with its requirements."""

    claim: PersistentVolumeClaim
    key: str
    storage_class: StorageClass
    size: Quantity | None
    """The requested size; None if there is none."""
    size_nano: int
    """The same in billionths of a byte, exactly; zero without a request."""
    selector: Selector | None
    """The selector of suitable volumes; None: all."""

    @property
    def class_name(self) -> str:
        return self.storage_class.metadata.name

    @property
    def volume_mode(self) -> str:
        return FILESYSTEM if self.claim.spec.volume_mode is None else self.claim.spec.volume_mode

    @property
    def attributes_class(self) -> str:
        return self.claim.spec.volume_attributes_class_name or ""

    @property
    def size_bytes(self) -> int:
        return 0 if self.size is None else self.size.value()

    @property
    def selected_node(self) -> str | None:
        """The node on which a volume is already being provisioned."""
        return self.claim.metadata.annotations.get(SELECTED_NODE)


class PodClaims(NamedTuple):
    """The claims of a pod that can be scheduled with them."""

    bound: tuple[PersistentVolumeClaim, ...]
    waiting: tuple[WaitingClaim, ...]


def exact_nano(size: Quantity) -> int:
    """A size as an integer that orders like the quantity; extreme values are capped."""
    return size.mantissa * int(10 ** (min(size.exponent, _MAX_EXPONENT) + _NANO))


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether claim and volume refer to each other; a volume's name alone is only a request."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def check_claims(
    pod: Pod, volumes: Iterable[Volume], store: Store[PersistentVolumeClaim]
) -> list[ClaimUse] | Status:
    """The claims of the pod's volumes, or the problem of one: missing, lost, deleted or not its own."""
    uses = list(claims_of(pod, volumes))
    for use in uses:
        claim = store.get(use.name, namespace=pod.metadata.namespace)
        problem = _problem(pod, use, claim)
        if problem:
            return Status.unresolvable(problem)
    return uses


def _problem(pod: Pod, use: ClaimUse, claim: PersistentVolumeClaim | None) -> str:
    if claim is None:
        if use.is_ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
        return claim_not_found(use.name)
    subject = f'persistentvolumeclaim "{use.name}"'
    if claim.status.phase == "Lost":
        return f'{subject} bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f"{subject} is being deleted"
    return ownership_problem(pod, claim) if use.is_ephemeral else ""


def sort_claims(
    namespace: str,
    uses: Iterable[ClaimUse],
    claims: Assumptions[PersistentVolumeClaim],
    classes: Store[StorageClass],
) -> PodClaims | Status:
    """Bound and waiting claims; a rejection if one should have been bound by now."""
    bound: list[PersistentVolumeClaim] = []
    waiting: list[WaitingClaim] = []
    late = False
    for use in uses:
        key = f"{namespace}/{use.name}"
        claim = claims.get(key)
        if claim is None:
            return Status.error(f'error getting PVC "{key}": {claim_not_found(key)}')
        if is_bound(claim):
            bound.append(claim)
            continue
        name = claim_class(claim)
        storage_class = classes.get(name) if name else None
        if storage_class is not None and storage_class.volume_binding_mode is None:
            return Status.error(f'VolumeBindingMode not set for StorageClass "{name}"')
        if (
            storage_class is None
            or storage_class.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER
            or claim.spec.volume_name
        ):
            late = True
            continue
        claim_to_bind = _waiting_claim(claim, storage_class)
        if isinstance(claim_to_bind, Status):
            return claim_to_bind
        waiting.append(claim_to_bind)
    if late:
        return Status.unresolvable("pod has unbound immediate PersistentVolumeClaims")
    return PodClaims(tuple(bound), tuple(waiting))


def _waiting_claim(claim: PersistentVolumeClaim, storage_class: StorageClass) -> WaitingClaim | Status:
    key = object_key(claim)
    asked = claim.spec.resources.requests.get("storage")
    try:
        size = None if asked is None else parse(asked)
        selector = None if claim.spec.selector is None else compile_label_selector(claim.spec.selector)
    except (QuantityError, SelectorError) as exc:
        return Status.unresolvable(f'persistentvolumeclaim "{claim.metadata.name}" cannot be used: {exc}')
    return WaitingClaim(claim, key, storage_class, size, 0 if size is None else exact_nano(size), selector)
