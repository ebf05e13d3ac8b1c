"""The search: devices one after the other, in order, and back where it does not go on.

In: a demand, a site, and allocated devices. Out: the first complete set of devices in upstream's order, None
if there is none, or an `AllocationError`. Upstream's search tries every combination; this one skips three
kinds of attempts that cannot succeed, so that the first solution is the same:

- if there are fewer devices than all requests need together, too few candidates are left for one request, or
  too few devices have the same value of a `matchAttribute`;
- a device that equals one that just failed, for every request and constraint;
- selectors are evaluated once per distinct content of devices.

Work is counted. A search that has used up its share stops and can be continued later, because some demands
take very long.
"""

from __future__ import annotations

import enum
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from kuberth.api.quantity import Quantity
from kuberth.api.resource import DeviceTaint, DeviceToleration
from kuberth.api.taints import toleration_tolerates
from kuberth.cel.values import WORK
from kuberth.errors import KuberthError, QuantityError
from kuberth.plugins.devices.sites import DeviceCandidate, Site
from kuberth.plugins.devices.slices import DeviceId, DevicePool, KnownDevice, PoolId, attribute_value
from kuberth.plugins.devices.usage import DeviceUsage
from kuberth.plugins.dynamic_resources.allocator.capacity import Amounts, PoolCounters, all_consumed, fits
from kuberth.plugins.dynamic_resources.allocator.constraints import PickConstraint, attribute_of
from kuberth.plugins.dynamic_resources.allocator.demand import (
    MAX_DEVICES,
    AllocationError,
    Demand,
    WantedClaim,
    WantedRequest,
)

_TIMEOUT: Final = "the search has used up its share of work"
_FREE_COST: Final = 100
"""An evaluation of a selector up to this cost counts like checking the device."""
_COST_PER_WORK: Final = 8
_EXPENSIVE: Final = 64
"""More work than this for one device waits until there is a budget for it."""
_NOTHING: Final[Amounts] = {}
_INT64: Final = 1 << 63


def _work_since(spent: int) -> int:
    """The work of the selectors that were compiled and evaluated since this much was spent."""
    return max(WORK.spent - spent - _FREE_COST, 0) // _COST_PER_WORK


class SearchTimeout(KuberthError):  # noqa: N818  # an outcome more than a fault
    """The search has used up its budget."""


class Pick(NamedTuple):
    """A device chosen for a request."""

    request: WantedRequest
    device: KnownDevice
    consumed: Amounts
    """The capacity that a share of it consumes."""


class Found(NamedTuple):
    """A solution."""

    picks: Sequence[Sequence[Pick]]
    """By claim, in the order picked."""
    chosen: Sequence[Sequence[WantedRequest]]
    """By claim, for every request, the chosen alternative."""


class _Failure(enum.Enum):
    NO_DEVICE = enum.auto()
    TOO_MANY = enum.auto()
    """More devices than a claim can have: no other device for an earlier request changes that."""


class _Cursor(NamedTuple):
    """The next step of the search."""

    claim: int
    request: int = 0
    alternative: int | None = None
    picked: int = 0
    """The devices of the request so far."""
    start: int = 0
    """The index of the next candidate."""


_Undo = list[Callable[[], object]]
"""What puts a device back; called in reverse."""


@dataclass(slots=True)
class _Choice:
    """The alternatives of a request."""

    cursor: _Cursor
    number: int
    index: int = 0
    all_too_many: bool = True


@dataclass(slots=True)
class _Picking:
    """One device of a request."""

    cursor: _Cursor
    request: WantedRequest
    position: int
    failed: set[Hashable] = field(default_factory=set)
    candidate: DeviceCandidate | None = None
    undo: _Undo = field(default_factory=list)


_Frame = _Choice | _Picking | None
"""None separates two claims."""


class DeviceSearch:
    """A search over a site and a usage that do not change meanwhile."""

    def __init__(self, demand: Demand, site: Site, usage: DeviceUsage) -> None:
        self._demand = demand
        self._site = site
        self._usage = usage
        self.work = 0
        """The number of steps and checked devices."""
        self._until = sys.maxsize
        self._has_evaluated = False
        """Whether a selector was evaluated within this budget."""
        self._is_starved = False
        """Whether other searches have used up the budget."""
        self._retry: _Picking | None = None
        """The request whose device was put back, while another one is searched."""
        self._cursor: _Cursor | None = None
        """Where to continue; None: at the start."""
        self._numbers: list[int] = [0] * len(demand.requests)
        """By key of a request: the number of devices that it needs."""
        self._all: dict[int, list[DeviceCandidate]] = {}
        """By key: the devices of a request for all devices."""
        self._constraints: list[Sequence[PickConstraint]] = []
        self._stack: list[_Frame] = []
        self._picks: list[list[Pick]] = [[] for _ in demand.claims]
        self._picked: dict[DeviceId, set[int]] = {}
        """The claims for which a device is chosen."""
        self._shares: dict[DeviceId, Amounts] = {}
        """The capacity consumed of shared devices."""
        self._counters: dict[PoolId, PoolCounters] = {}
        self._has_backtracked = False
        """Whether something has failed already: only then is pruning worth its cost."""
        self._first_free = 0
        """Candidates before this index are in use; only requests with admin access may get them."""
        self._keys: dict[DeviceId, Hashable] = {}
        self._distinguishes = False
        """Whether the result depends on earlier choices, so that equal devices are not interchangeable."""

    def run(self, work: int = sys.maxsize, *, is_starved: bool = False) -> Found | None:
        """The first solution; None if there is none.

        Raises AllocationError, or SearchTimeout after this much more work: call it again to continue.
        `is_starved`: other searches have used up the budget, so that no expensive selector is evaluated.
        """
        self._until = until = self.work + work
        self._has_evaluated = self._is_starved = is_starved
        cursor = self._cursor
        if self._retry is not None:
            # The last budget ended while a device was put back.
            step = self._pick_another(self._retry)
            cursor = self._backtrack(step) if isinstance(step, _Failure) else step
        elif cursor is None:
            if self._site.problem:
                raise AllocationError(self._site.problem)
            self._constraints.clear()  # the last budget may have ended here
            for claim in self._demand.claims:
                self._check(claim)
            cursor = _Cursor(0)
        while cursor is not None:
            if self.work >= until:
                self._cursor = cursor
                raise SearchTimeout(_TIMEOUT)
            self.work += 1
            self._cursor = cursor
            if cursor.claim >= len(self._demand.claims):
                return self._found()
            step = self._step(cursor)
            cursor = self._backtrack(step) if isinstance(step, _Failure) else step
        return None

    def _found(self) -> Found:
        chosen = [[alternatives[0] for alternatives in claim.requests] for claim in self._demand.claims]
        for frame in self._stack:
            if isinstance(frame, _Choice):
                claim, request = frame.cursor.claim, frame.cursor.request
                chosen[claim][request] = self._demand.claims[claim].requests[request][frame.index]
        return Found(self._picks, chosen)

    # Before the search

    def _check(self, claim: WantedClaim) -> None:
        """Compute how many devices the claim needs; raises if there is a problem with it."""
        at_least = 0
        for alternatives in claim.requests:
            fewest = sys.maxsize
            for request in alternatives:
                if request.problem is not None:
                    raise request.problem
                self._numbers[request.key] = number = self._number(claim, request)
                fewest = min(fewest, number)
            at_least += fewest
        at_least = (at_least + _INT64) % (2 * _INT64) - _INT64  # overflows as upstream's integers do
        if at_least > MAX_DEVICES:
            raise AllocationError(
                f": number of requested devices {at_least} exceeds the claim limit of {MAX_DEVICES}",
                claim=claim.index,
            )
        if claim.problem is not None:
            raise claim.problem
        constraints = list(map(PickConstraint, claim.constraints))
        self._constraints.append(constraints)
        self._distinguishes |= any(
            constraint.is_distinct
            and any(
                constraint.concerns(request) and self._numbers[request.key] > 1
                for alternatives in claim.requests
                for request in alternatives
            )
            for constraint in constraints
        )

    def _number(self, claim: WantedClaim, request: WantedRequest) -> int:
        if not request.is_all:
            return request.count
        for pool in self._site.pools:
            if not pool.is_usable:
                state = "being updated" if pool.is_incomplete else "invalid"
                text = f", request {request.name}: asks for all devices, but resource pool "
                raise AllocationError(f"{text}{'/'.join(pool.id)} is currently {state}", claim=claim.index)
        devices = self._all[request.key] = [
            candidate
            for candidate in self._site.candidates
            if self._selects(request, candidate) and self._fits(request, candidate.device)
        ]
        return len(devices)

    # Forward

    def _step(self, cursor: _Cursor) -> _Cursor | _Failure:
        claim = self._demand.claims[cursor.claim]
        if cursor.request >= len(claim.requests):
            self._stack.append(None)
            return _Cursor(cursor.claim + 1)
        alternatives = claim.requests[cursor.request]
        if cursor.alternative is None and alternatives[0].parent is not None:
            self._stack.append(_Choice(cursor, len(alternatives)))
            return cursor._replace(alternative=0)
        request = alternatives[cursor.alternative or 0]
        number = self._numbers[request.key]
        if request.is_all and number == 0:
            return _Failure.NO_DEVICE
        if cursor.picked >= number:
            return _Cursor(cursor.claim, cursor.request + 1)
        if len(self._picks[cursor.claim]) + number - cursor.picked > MAX_DEVICES:
            return _Failure.TOO_MANY
        frame = _Picking(cursor, request, cursor.start)
        if request.is_all:
            if not self._pick(frame, self._all[request.key][cursor.picked], must=True):
                return _Failure.NO_DEVICE
            self._stack.append(frame)
            return cursor._replace(picked=cursor.picked + 1)
        return self._next_pick(frame)

    def _next_pick(self, frame: _Picking) -> _Cursor | _Failure:
        """Choose the next available device, and push the frame."""
        cursor, request = frame.cursor, frame.request
        if self._has_backtracked and self._has_too_few_candidates(frame):
            return _Failure.NO_DEVICE
        candidates = self._site.candidates
        start = frame.position
        if not request.is_admin:
            while self._first_free < len(candidates) and self._is_in_use(candidates[self._first_free].device):
                self._first_free += 1
            start = max(start, self._first_free)
        for position in range(start, len(candidates)):
            self.work += 1
            candidate = candidates[position]
            device = candidate.device
            if request.is_admin:
                if cursor.claim in self._picked.get(device.id, ()):
                    continue
            elif self._is_in_use(device):
                continue
            if not self._selects(request, candidate) or not self._fits(request, device):
                continue
            if frame.failed and self._key(candidate) in frame.failed:
                continue
            if not self._pick(frame, candidate):
                continue
            frame.position = position + 1
            self._stack.append(frame)
            return cursor._replace(picked=cursor.picked + 1, start=position + 1)
        return _Failure.NO_DEVICE

    # Back

    def _backtrack(self, result: _Failure) -> _Cursor | None:
        """Undo choices until something else can be tried; None if nothing can."""
        if result is _Failure.NO_DEVICE and not self._has_backtracked and self._has_too_few_devices():
            return None
        self._has_backtracked = True
        while self._stack:
            frame = self._stack.pop()
            if frame is None:
                result = _Failure.NO_DEVICE
            elif isinstance(frame, _Choice):
                if result is _Failure.NO_DEVICE:
                    frame.all_too_many = False
                frame.index += 1
                if frame.index < frame.number:
                    self._stack.append(frame)
                    return frame.cursor._replace(alternative=frame.index)
                result = _Failure.TOO_MANY if frame.all_too_many else _Failure.NO_DEVICE
            else:
                _put_back(frame.undo)
                self._first_free = 0 if frame.request.is_all else min(self._first_free, frame.position - 1)
                if result is _Failure.NO_DEVICE and not frame.request.is_all:
                    self._retry = frame
                    step = self._pick_another(frame)
                    if isinstance(step, _Cursor):
                        return step
                    result = step
        if result is _Failure.TOO_MANY:
            raise AllocationError("allocation max size exceeded")
        return None

    def _pick_another(self, frame: _Picking) -> _Cursor | _Failure:
        """Choose another device instead of one that was put back."""
        assert frame.candidate is not None
        if not self._distinguishes:
            frame.failed.add(self._key(frame.candidate))
        step = self._next_pick(frame)
        self._retry = None
        return step

    # One device

    def _selects(self, request: WantedRequest, candidate: DeviceCandidate) -> bool:
        """Whether the request selects the device, allocated or not. Charges expensive selectors."""
        if not candidate.device.is_given:
            return False
        answer = request.answers.get(candidate.device.content)
        if answer is None:
            is_over = self.work >= self._until or (self._is_starved and request.is_expensive)
            if is_over and self._has_evaluated:
                raise SearchTimeout(_TIMEOUT)
            self._has_evaluated = True  # at least one per budget, so that the search ends
            before = WORK.spent

            def between() -> None:
                if self.work + _work_since(before) >= self._until:
                    raise SearchTimeout(_TIMEOUT)

            try:
                return request.selects(candidate, between=between)
            finally:
                work = _work_since(before)
                self.work += work
                request.is_expensive |= work > _EXPENSIVE
        return answer and candidate.is_reachable

    def _is_in_use(self, device: KnownDevice) -> bool:
        return device.id in self._usage.whole or bool(self._picked.get(device.id))

    def _fits(self, request: WantedRequest, device: KnownDevice) -> bool:
        """Whether the device has the requested capacity."""
        consumed = self._usage.consumed.get(device.id, _NOTHING)
        picked = self._shares.get(device.id, _NOTHING)
        if not (request.capacities or consumed or picked or device.has_policies):
            return True  # the whole device, the usual case
        return fits(request.capacities, device.capacities, consumed, picked)

    def _pick(self, frame: _Picking, candidate: DeviceCandidate, *, must: bool = False) -> bool:
        """Allocate the device if possible. With `must`, a violated constraint is an error."""
        claim, request, device = frame.cursor.claim, frame.request, candidate.device
        if request.is_admin:
            if not device.is_shareable and claim in self._picked.get(device.id, ()):
                return False
        elif self._is_in_use(device):
            return False
        if device.consumes and not self._demand.features.has_partitions:
            return False
        if device.preventing_taints and not _tolerates_all(request.tolerations, device.preventing_taints):
            return False
        undo: _Undo = []
        if device.consumes and not (
            device.is_shareable and (device.id in self._usage.consumed or device.id in self._shares)
        ):
            counters = self._counters_of(candidate.pool)
            if counters is None or not counters.take(device):
                return False
            undo.append(partial(counters.put_back, device))
        for constraint in self._constraints[claim]:
            if constraint.add(request, device):
                undo.append(partial(constraint.remove, request))
                continue
            _put_back(undo)
            if must:
                raise AllocationError(
                    f", request {request.name}: cannot add device {'/'.join(device.id)} because a claim "
                    "constraint would not be satisfied",
                    claim=claim,
                )
            return False
        if not self._fits(request, device):
            _put_back(undo)
            return False
        consumed: Amounts = _NOTHING
        if device.is_shareable:
            consumed = all_consumed(request.capacities, device.capacities)
            before = self._shares.get(device.id)
            undo.append(partial(self._set_shares, device.id, before))
            self._set_shares(device.id, _sum(before, consumed))
        else:
            claims = self._picked.setdefault(device.id, set())
            undo.append(partial(claims.discard, claim))
            claims.add(claim)
        self._picks[claim].append(Pick(request, device, consumed))
        undo.append(self._picks[claim].pop)
        frame.candidate, frame.undo = candidate, undo
        return True

    def _set_shares(self, device: DeviceId, amounts: Amounts | None) -> None:
        if amounts is None:
            del self._shares[device]
        else:
            self._shares[device] = amounts

    def _counters_of(self, pool: DevicePool) -> PoolCounters | None:
        """None if amounts overflow."""
        counters = self._counters.get(pool.id)
        if counters is None:
            try:
                counters = self._counters[pool.id] = PoolCounters(pool, self._usage)
            except QuantityError:
                return None
        return counters

    # Pruning

    def _has_too_few_devices(self) -> bool:
        """Whether there are fewer devices than requests need, in any assignment.

        False if upstream might return something other than "no solution": it has alternatives to try, errors
        on its way, or devices that can be allocated several times.
        """
        requests = self._demand.requests
        if any(
            request.is_all or request.parent is not None or self._numbers[request.key] > MAX_DEVICES
            for request in requests
        ):
            return False
        needed = sum(self._numbers[request.key] for request in requests if not request.is_admin)
        if not needed:
            return False
        available: list[tuple[KnownDevice, list[WantedRequest]]] = []
        try:
            for candidate in self._site.candidates:
                self.work += 1
                # Every request is checked against every device, so that no error is missed.
                wanted = [
                    request
                    for request in requests
                    if self._selects(request, candidate) and not request.is_admin
                ]
                if candidate.device.id in self._usage.whole or not wanted:
                    continue
                if candidate.device.is_shareable:
                    return False
                available.append((candidate.device, wanted))
        except AllocationError:
            return False
        return len(available) < needed or any(
            self._cannot_match(claim, constraint, available)
            for claim, constraints in zip(self._demand.claims, self._constraints, strict=True)
            for constraint in constraints
            if not constraint.is_distinct
        )

    def _cannot_match(
        self,
        claim: WantedClaim,
        constraint: PickConstraint,
        available: Sequence[tuple[KnownDevice, Sequence[WantedRequest]]],
    ) -> bool:
        """Whether no value of the attribute occurs on enough devices for its requests."""
        keys = {
            request.key
            for alternatives in claim.requests
            for request in alternatives
            if constraint.concerns(request) and not request.is_admin
        }
        needed = sum(self._numbers[key] for key in keys)
        same: Counter[Hashable] = Counter()
        for device, wanted in available:
            attribute = attribute_of(device, constraint.attribute)
            if attribute is not None and any(request.key in keys for request in wanted):
                same[attribute_value(attribute) or device.id] += 1
        return needed > max(same.values(), default=0)

    def _has_too_few_candidates(self, frame: _Picking) -> bool:
        """Whether too few devices are left. False if some selector fails, which must be reported."""
        request = frame.request
        needed = self._numbers[request.key] - frame.cursor.picked
        found = 0
        candidates = self._site.candidates
        try:
            for position in range(frame.position, len(candidates)):
                self.work += 1
                candidate = candidates[position]
                if not request.is_admin and candidate.device.id in self._usage.whole:
                    continue
                if self._selects(request, candidate) and (
                    request.is_admin or not self._picked.get(candidate.device.id)
                ):
                    found += 1
                    # There may be errors behind the last device needed, but upstream does not get there.
                    if found >= needed:
                        return False
        except AllocationError:
            return False
        return True

    def _key(self, candidate: DeviceCandidate) -> Hashable:
        """A key that is equal for interchangeable devices in this search."""
        device = candidate.device
        if self._picked.get(device.id) or device.id in self._shares:
            return device.id
        key = self._keys.get(device.id)
        if key is None:
            key = self._keys[device.id] = self._interchange_key(candidate)
        return key

    def _interchange_key(self, candidate: DeviceCandidate) -> Hashable:
        device = candidate.device
        try:
            selected = tuple(self._selects(request, candidate) for request in self._demand.requests)
        except AllocationError:
            return device.id
        return (
            selected,
            device.id in self._usage.whole,
            tuple(
                attribute_value(attribute) or device.id
                if (attribute := attribute_of(device, constraint.attribute)) is not None
                else None
                for constraints in self._constraints
                for constraint in constraints
            ),
            (candidate.pool.id, device.consumes) if device.consumes else None,
            tuple(
                _tolerates_all(request.tolerations, device.preventing_taints)
                for request in self._demand.requests
            )
            if device.preventing_taints
            else None,
            device.is_shareable,
            _capacity_key(device, self._usage),
        )


def _tolerates_all(tolerations: Sequence[DeviceToleration], taints: Sequence[DeviceTaint]) -> bool:
    """Whether every taint is tolerated, for any time."""
    return all(any(toleration_tolerates(toleration, taint) for toleration in tolerations) for taint in taints)


def _put_back(undo: _Undo) -> None:
    for step in reversed(undo):
        step()


def _sum(before: Amounts | None, added: Amounts) -> Amounts:
    if before is None:
        return added
    return {name: before[name] + amount if name in before else amount for name, amount in added.items()}


def _capacity_key(device: KnownDevice, usage: DeviceUsage) -> Hashable:
    consumed: Amounts | None = usage.consumed.get(device.id)
    return (
        tuple(sorted((name, _plain(known.value), known.policy) for name, known in device.capacities.items())),
        None
        if consumed is None
        else tuple(sorted((name, _plain(amount)) for name, amount in consumed.items())),
    )


def _plain(amount: Quantity) -> tuple[int, int]:
    return amount.mantissa, amount.exponent
