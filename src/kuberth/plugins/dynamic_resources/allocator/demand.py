"""The parsed requests of claims, shared by all pods with equal claims.

In: the specs of claims and their classes. Out: requests with their selectors, amounts and modes, and which
devices they select. A problem with a request is stored with it: it only matters when the search reaches the
request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

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
from kuberth.cel import CelCompileError, CelRuntimeError, DeviceContent, compile_selector
from kuberth.errors import KuberthError, QuantityError
from kuberth.plugins.devices.classes import KnownClasses
from kuberth.plugins.devices.features import ALL_FEATURES, DeviceFeatures
from kuberth.plugins.devices.sites import DeviceCandidate

MAX_DEVICES: Final = 32
"""The maximum number of devices of a claim."""
EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"
_MAX_ANSWERS: Final = 1 << 16


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


class Selecting(NamedTuple):
    """One selector, with the messages for its failures."""

    expression: str
    prefix: str
    claim: int | None


class WantedRequest:
    """One request, or one alternative of a request."""

    def __init__(
        self,
        request: ExactDeviceRequest | DeviceSubRequest,
        *,
        name: str,
        parent: str | None,
        place: int,
        key: int,
        claim: int,
        classes: KnownClasses,
        features: DeviceFeatures,
        disabled: str,
    ) -> None:
        """`disabled`: the problem that the request uses a disabled feature."""
        self.answers: dict[DeviceContent, bool] = {}
        """Cached selector results by device."""
        self._matched: dict[DeviceContent, int] = {}
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
        self.lists = features.has_lists
        """Whether attributes may be lists."""
        self.tolerations: tuple[DeviceToleration, ...] = request.tolerations
        self.class_: DeviceClass | None = classes.get(request.device_class_name)
        self.capacities: Mapping[str, Quantity] = {}
        self.selectors: tuple[Selecting, ...] = ()
        self.problem: AllocationError | None = None
        """Why the request cannot be allocated."""
        problem = disabled
        try:
            problem = problem or _problem(request, name, self.class_, features)
            if not problem and request.capacity is not None and features.has_shares:
                asked = request.capacity.requests
                self.capacities = {resource: parse(amount) for resource, amount in asked.items()}
        except QuantityError as exc:
            problem = f", request {name}: {exc}"
        if problem:
            self.problem = AllocationError(problem, claim=claim)
        elif self.class_ is not None:
            of_class = f"class {self.class_.metadata.name}"
            self.selectors = (
                *_selecting(self.class_.spec.selectors, prefix=of_class, claim=None),
                *_selecting(request.selectors, prefix="", claim=claim),
            )

    def selects(self, candidate: DeviceCandidate, *, between: Callable[[], None] | None = None) -> bool:
        """Whether the request selects the device; AllocationError if a selector is invalid or fails.

        The result is computed once per distinct content of devices. `between` is called between two
        selectors. If it raises, the next call for this device continues there.
        """
        if not candidate.device.is_given:
            return False
        content = candidate.device.content
        answer = self.answers.get(content)
        if answer is None:
            answer = self._evaluate(content, between)
        return answer and candidate.is_reachable

    def _evaluate(self, content: DeviceContent, between: Callable[[], None] | None) -> bool:
        if len(self.answers) >= _MAX_ANSWERS:
            self.answers.clear()
        answer, begin = True, self._matched.pop(content, 0)
        for index, each in enumerate(self.selectors[begin:], begin):
            if index > begin and between is not None:
                self._matched[content] = index
                between()
            try:
                answer = compile_selector(each.expression, lists=self.lists).matches(content)
            except CelCompileError as exc:
                raise AllocationError(f"{each.prefix}CEL compile error: {exc}", claim=each.claim) from exc
            except CelRuntimeError as exc:
                raise AllocationError(f"{each.prefix}CEL runtime error: {exc}", claim=each.claim) from exc
            if not answer:
                break
        self._matched.pop(content, None)
        self.answers[content] = answer
        return answer


def _problem(
    request: ExactDeviceRequest | DeviceSubRequest,
    name: str,
    device_class: DeviceClass | None,
    features: DeviceFeatures,
) -> str:
    """Why a request cannot be allocated; empty if it can."""
    where = f", request {name}"
    for index, selector in enumerate(request.selectors):
        if selector.cel is None:
            return f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)"
    asks_for_admin = isinstance(request, ExactDeviceRequest) and request.admin_access is not None
    if asks_for_admin and not features.has_admin_access:
        return f"{where}: admin access is requested, but the feature is disabled"
    if not request.device_class_name:
        return f"{where}: missing device class name (unsupported request type?)"
    if device_class is None:
        return f"{where}: could not retrieve device class {request.device_class_name}: not found"
    if request.allocation_mode not in (EXACT_COUNT, ALL):
        return f"{where}: unsupported count mode {request.allocation_mode}"
    return ""


def _selecting(
    selectors: Sequence[DeviceSelectorSpec], *, prefix: str, claim: int | None
) -> Sequence[Selecting]:
    return [
        Selecting(selector.cel.expression, f"{prefix}: selector #{index}: ", claim)
        for index, selector in enumerate(selectors)
        if selector.cel is not None
    ]


class WantedClaim:
    """One claim: its requests, each with one or more alternatives."""

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
            parent = request.name if request.first_available else None
            options: Sequence[ExactDeviceRequest | DeviceSubRequest] = request.first_available or (
                request.exactly or ExactDeviceRequest(),
            )
            alternatives = tuple(
                WantedRequest(
                    each,
                    name=each.name if isinstance(each, DeviceSubRequest) else request.name,
                    parent=parent,
                    place=place,
                    key=key + place,
                    claim=index,
                    classes=classes,
                    features=features,
                    disabled=_disabled(request, features),
                )
                for place, each in enumerate(options)
            )
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


def _disabled(request: DeviceRequest, features: DeviceFeatures) -> str:
    """The problem that a request uses a disabled feature; empty if it uses none."""
    if request.first_available and not features.has_alternatives:
        return f", request {request.name}: has subrequests, but the DRAPrioritizedList feature is disabled"
    if features.has_shares or features.is_oldest:
        return ""
    asking = {f"subrequest {each.name}": each.capacity for each in request.first_available}
    if request.exactly is not None:
        asking = {f"request {request.name}": request.exactly.capacity, **asking}
    for name, capacity in asking.items():
        if capacity is not None:
            return f", {name}: has capacity requests, but the DRAConsumableCapacity feature is disabled"
    return ""


class Demand:
    """All claims of a pod that have to be allocated."""

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
