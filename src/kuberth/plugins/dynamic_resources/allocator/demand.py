"""The parsed requests of claims, shared by all pods with equal claims.

In: the specs of claims and their classes. Out: requests with their selectors, amounts and modes. A problem
with a request is stored with it: it only matters when the search reaches the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kuberth.api.quantity import Quantity, parse
from kuberth.api.resource import (
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelectorSpec,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from kuberth.cel import DeviceContent
from kuberth.errors import KuberthError, QuantityError
from kuberth.plugins.devices.classes import KnownClasses
from kuberth.plugins.devices.features import ALL_FEATURES, DeviceFeatures

MOST_RESULTS: Final = 32
"""The maximum number of devices of a claim."""
EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"


class AllocationError(KuberthError):
    """A claim that cannot be allocated on any node.

    `claim` is its index among the given claims, if the problem is with one of them; the message continues
    after its name.
    """

    def __init__(self, text: str, *, claim: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.claim = claim

    def message(self, claims: Sequence[ResourceClaim]) -> str:
        """The whole message, for these claims."""
        if self.claim is None:
            return self.text
        metadata = claims[self.claim].metadata
        return f"claim {metadata.namespace}/{metadata.name}{self.text}"


class Selecting:
    """One selector, with the messages for its failures."""

    __slots__ = ("claim", "expression", "lists", "prefix")

    def __init__(self, expression: str, *, prefix: str, claim: int | None, lists: bool) -> None:
        self.expression = expression
        self.lists = lists
        """Whether attributes may be lists."""
        self.prefix = prefix
        self.claim = claim


class WantedRequest:
    """One request, or one alternative of a request."""

    __slots__ = (
        "answers",
        "capacities",
        "class_",
        "count",
        "is_admin",
        "is_all",
        "is_expensive",
        "key",
        "matched",
        "name",
        "parent",
        "place",
        "problem",
        "selectors",
        "sub_name",
        "tolerations",
    )

    def __init__(
        self,
        request: ExactDeviceRequest | DeviceSubRequest,
        *,
        name: str,
        parent: str | None,
        claim: int,
        classes: KnownClasses,
        key: int,
        place: int = 0,
        features: DeviceFeatures,
        disabled: AllocationError | None = None,
    ) -> None:
        """`disabled`: the disabled feature that the request uses."""
        self.answers: dict[DeviceContent, bool] = {}
        """Cached selector results by device."""
        self.matched: dict[DeviceContent, int] = {}
        """By device whose evaluation was interrupted: how many selectors match it."""
        self.is_expensive = False
        """Whether an evaluation took much more work than checking a device."""
        self.key = key
        """Its index among all requests and alternatives of the pod."""
        self.name = name
        self.parent = parent
        """The request that this is an alternative of."""
        self.place = place
        """Its index among the alternatives."""
        self.sub_name = name if parent is None else f"{parent}/{name}"
        """Its name in results and constraints."""
        self.count = request.count
        self.is_all = request.allocation_mode == ALL
        self.is_admin = isinstance(request, ExactDeviceRequest) and bool(request.admin_access)
        self.tolerations: tuple[DeviceToleration, ...] = request.tolerations
        self.class_: DeviceClass | None = classes.get(request.device_class_name)
        self.capacities: Mapping[str, Quantity] = {}
        self.selectors: tuple[Selecting, ...] = ()
        self.problem: AllocationError | None = disabled
        """Why the request cannot be allocated."""
        if disabled is not None:
            return
        where = f", request {name}"
        for index, selector in enumerate(request.selectors):
            if selector.cel is None:
                self.problem = AllocationError(
                    f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)",
                    claim=claim,
                )
                return
        asks_for_admin = isinstance(request, ExactDeviceRequest) and request.admin_access is not None
        if asks_for_admin and not features.has_admin_access:
            text = f"{where}: admin access is requested, but the feature is disabled"
            self.problem = AllocationError(text, claim=claim)
            return
        if not request.device_class_name:
            text = f"{where}: missing device class name (unsupported request type?)"
            self.problem = AllocationError(text, claim=claim)
            return
        if self.class_ is None:
            text = f"{where}: could not retrieve device class {request.device_class_name}: not found"
            self.problem = AllocationError(text, claim=claim)
            return
        if request.allocation_mode not in (EXACT_COUNT, ALL):
            text = f"{where}: unsupported count mode {request.allocation_mode}"
            self.problem = AllocationError(text, claim=claim)
            return
        if request.capacity is not None and features.has_shares:
            try:
                self.capacities = {
                    resource: parse(amount) for resource, amount in request.capacity.requests.items()
                }
            except QuantityError as exc:
                self.problem = AllocationError(f"{where}: {exc}", claim=claim)
                return
        of_class = f"class {self.class_.metadata.name}"
        self.selectors = (
            *_selecting(self.class_.spec.selectors, features, prefix=of_class, claim=None),
            *_selecting(request.selectors, features, prefix="", claim=claim),
        )


def _selecting(
    selectors: Sequence[DeviceSelectorSpec],
    features: DeviceFeatures,
    *,
    prefix: str,
    claim: int | None,
) -> Sequence[Selecting]:
    return [
        Selecting(
            selector.cel.expression,
            prefix=f"{prefix}: selector #{index}: ",
            claim=claim,
            lists=features.has_lists,
        )
        for index, selector in enumerate(selectors)
        if selector.cel is not None
    ]


class WantedClaim:
    """One claim: its requests, each with one or more alternatives."""

    __slots__ = ("constraints", "index", "problem", "requests", "spec")

    def __init__(
        self,
        spec: ResourceClaimSpec,
        index: int,
        classes: KnownClasses,
        *,
        first_key: int,
        features: DeviceFeatures,
    ) -> None:
        self.spec = spec
        self.index = index
        self.requests: list[tuple[WantedRequest, ...]] = []
        key = first_key
        for request in spec.devices.requests:
            alternatives = _alternatives(request, index, classes, first_key=key, features=features)
            key += len(alternatives)
            self.requests.append(alternatives)
        self.constraints: tuple[DeviceConstraint, ...] = spec.devices.constraints
        self.problem: AllocationError | None = None
        """The problem with a constraint."""
        for number, constraint in enumerate(self.constraints):
            if constraint.match_attribute is None and (
                constraint.distinct_attribute is None or features.is_oldest
            ):
                text = f", constraint #{number}: empty constraint (unsupported constraint type?)"
                self.problem = AllocationError(text, claim=index)
                break


def _alternatives(
    request: DeviceRequest,
    claim: int,
    classes: KnownClasses,
    *,
    first_key: int,
    features: DeviceFeatures,
) -> tuple[WantedRequest, ...]:
    disabled = _disabled(request, claim, features)
    if request.first_available:
        return tuple(
            WantedRequest(
                each,
                name=each.name,
                parent=request.name,
                claim=claim,
                classes=classes,
                key=first_key + place,
                place=place,
                features=features,
                disabled=disabled,
            )
            for place, each in enumerate(request.first_available)
        )
    exactly = ExactDeviceRequest() if request.exactly is None else request.exactly
    return (
        WantedRequest(
            exactly,
            name=request.name,
            parent=None,
            claim=claim,
            classes=classes,
            key=first_key,
            features=features,
            disabled=disabled,
        ),
    )


def _disabled(request: DeviceRequest, claim: int, features: DeviceFeatures) -> AllocationError | None:
    """The disabled feature that a request uses, if any."""
    if request.first_available and not features.has_alternatives:
        text = f", request {request.name}: has subrequests, but the DRAPrioritizedList feature is disabled"
        return AllocationError(text, claim=claim)
    if features.has_shares or features.is_oldest:
        return None
    asking = {f"subrequest {each.name}": each.capacity for each in request.first_available}
    if request.exactly is not None:
        asking = {f"request {request.name}": request.exactly.capacity, **asking}
    for name, capacity in asking.items():
        if capacity is not None:
            text = f", {name}: has capacity requests, but the DRAConsumableCapacity feature is disabled"
            return AllocationError(text, claim=claim)
    return None


class Demand:
    """All claims of a pod that have to be allocated."""

    __slots__ = ("claims", "features", "requests")

    def __init__(
        self,
        specs: Sequence[ResourceClaimSpec],
        classes: KnownClasses,
        features: DeviceFeatures = ALL_FEATURES,
    ) -> None:
        self.features = features
        self.claims: list[WantedClaim] = []
        self.requests: list[WantedRequest] = []
        """All requests and alternatives, by their `key`."""
        for index, spec in enumerate(specs):
            claim = WantedClaim(spec, index, classes, first_key=len(self.requests), features=features)
            self.claims.append(claim)
            self.requests += [each for alternatives in claim.requests for each in alternatives]
