"""Writes to claims that fail: how often they are tried, and who gets to know."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, TypeVar

import pytest

from kuberth.api.resource import ResourceClaim, ResourceClaimConsumerReference
from kuberth.clock import run_in_virtual_time
from kuberth.errors import ApiError, ConflictError, NotFoundError, UnreachableError
from kuberth.informers.store import Store
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.plugins.devices.claims import KnownClaims
from kuberth.plugins.dynamic_resources.writing import ClaimWriter
from kuberth.testing import FakeClock, MemoryApi
from tests.unit.plugins.device_objects import exactly, given, make_claim

T = TypeVar("T")

CLAIM = make_claim("c", exactly(), status=given("dev-0"))
USER = ResourceClaimConsumerReference(resource="pods", name="p", uid="u")


class Failing(MemoryApi):
    """Fails with these, one for each request, before it answers."""

    def __init__(self, *failures: ApiError) -> None:
        super().__init__()
        self.failures = [*failures]
        self.requests: list[str] = []

    def _fail(self, request: str) -> None:
        self.requests.append(request)
        if self.failures:
            raise self.failures.pop(0)

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        self._fail("get")
        return await super().get(kind, name, namespace=namespace)

    async def patch(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> T:
        self._fail("patch")
        return await super().patch(kind, name, patch, namespace=namespace, subresource=subresource)


def writer_of(api: MemoryApi) -> tuple[ClaimWriter, KnownClaims]:
    claims = KnownClaims(Store[ResourceClaim](), FakeClock())
    return ClaimWriter(api, claims, FakeClock(), metrics=SchedulerMetrics()), claims


@pytest.mark.parametrize(
    ("failures", "requests", "is_known"),
    [
        pytest.param([], 1, True, id="the-claim-is-there"),
        pytest.param([NotFoundError("gone")], 1, False, id="the-claim-is-gone"),
        pytest.param([UnreachableError("down")] * 3, 4, True, id="the-API-comes-back"),
        pytest.param([UnreachableError("down")] * 99, 60, False, id="the-API-stays-away"),
    ],
)
def test_doubt_ends(failures: list[ApiError], requests: int, is_known: bool) -> None:
    async def scenario() -> None:
        api, ended = Failing(*failures), []
        claim = api.put(CLAIM)
        writer, claims = writer_of(api)
        claims.add_pending(claim)
        writer.in_doubt.add(claim.metadata.uid)
        await writer.resolve_doubt(claim, lambda: ended.append(1))
        assert (api.requests, ended) == (["get"] * requests, [1])
        assert (claims.in_flight, writer.in_doubt) == ({}, set())
        assert (claims.get_by_key("default/c") is not None) is is_known

    run_in_virtual_time(scenario)


def test_a_claim_that_always_changes_is_written_five_times() -> None:
    async def scenario() -> None:
        api = MemoryApi()
        claim = api.put(CLAIM)
        writer, _claims = writer_of(api)
        writes: list[int] = []

        async def conflict(*_given: Any, **_more: Any) -> None:
            writes.append(1)
            raise ConflictError("changed meanwhile")

        api.patch = conflict  # type: ignore[method-assign, assignment]  # of this API alone
        with pytest.raises(ConflictError):
            await writer.reserve(claim, None, USER)
        assert len(writes) == 5, "as kube-scheduler tries"

    run_in_virtual_time(scenario)


@pytest.mark.parametrize("method", ["release", "deallocate", "delete"])
@pytest.mark.parametrize(
    ("failures", "calls"),
    [([], []), ([UnreachableError("down")], ["otherwise"])],
    ids=["written", "not-written"],
)
def test_the_pod_is_tried_again_if_its_claim_could_not_be_written(
    method: str, failures: list[ApiError], calls: list[str]
) -> None:
    async def scenario() -> None:
        api, called = Failing(*failures), []
        claim = api.put(CLAIM)
        writer, _claims = writer_of(api)
        given = (claim, USER) if method == "release" else (claim,)
        await getattr(writer, method)(*given, lambda: called.append("otherwise"))
        assert called == calls

    run_in_virtual_time(scenario)


@pytest.mark.parametrize(("conflicts", "is_deleted"), [(4, True), (5, False)])
def test_a_claim_that_changes_is_deleted_at_the_fifth_attempt_at_the_latest(
    conflicts: int, is_deleted: bool
) -> None:
    class Changing(Failing):
        def _fail(self, request: str) -> None:
            if request == "patch":
                super()._fail(request)

    async def scenario() -> None:
        api, called = Changing(*[ConflictError("changed meanwhile")] * conflicts), []
        claim = api.put(CLAIM)
        writer, _claims = writer_of(api)
        await writer.delete(claim, lambda: called.append("otherwise"))
        assert called == ([] if is_deleted else ["otherwise"])
        assert len(api.requests) == 5
        assert bool(list(api.all(ResourceClaim))) is not is_deleted

    run_in_virtual_time(scenario)


class Unpatchable(MemoryApi):
    """Refuses to patch finalizers as a change of parameters; other ways of adding one find `found`."""

    def __init__(self, found: ResourceClaim) -> None:
        super().__init__()
        self._found = found
        self.written: list[str] = []

    async def patch(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> T:
        if "finalizers" in patch["metadata"]:
            raise ApiError("spec is immutable", code=422)
        self.written.append(subresource)
        return self.read(kind, f"{namespace}/{name}")

    async def add_finalizer(self, kind: type[T], name: str, finalizer: str, *, namespace: str = "") -> T:
        assert isinstance(self._found, kind)
        return self._found


FREE = make_claim("c", exactly())


@pytest.mark.parametrize(
    ("found", "written"),
    [
        pytest.param(FREE, ["status"], id="the-same-claim"),
        pytest.param(make_claim("c", exactly(), metadata={"uid": "other"}), [], id="another-of-its-name"),
        pytest.param(CLAIM, [], id="allocated-meanwhile"),
    ],
)
def test_a_claim_that_cannot_be_patched_is_written_only_if_it_is_still_the_same(
    found: ResourceClaim, written: list[str]
) -> None:
    async def scenario() -> None:
        api = Unpatchable(found)
        claim = api.put(FREE)
        writer, _claims = writer_of(api)
        with nullcontext() if written else pytest.raises(ConflictError):
            await writer.reserve(claim, CLAIM.status.allocation, USER)
        assert api.written == written

    run_in_virtual_time(scenario)
