"""Pages to serve, a door that is open, and an API that answers reviews."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from kuberth.api.authentication import TokenReview, TokenReviewStatus, UserInfo
from kuberth.api.authorization import SubjectAccessReview, SubjectAccessReviewStatus
from kuberth.https.messages import Request, Response
from kuberth.local.memory_api import MemoryApi
from kuberth.serving.access import OPEN_PATHS
from kuberth.serving.messages import Handler
from kuberth.testing import FakeClock
from tests.unit.https.harness import Answer, Authority, fetch, run, trusting

T = TypeVar("T")


class Reviewer(MemoryApi):
    """Knows tokens and rights; other kinds go to the memory cluster as ever."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: dict[str, UserInfo] = {
            "good": UserInfo(username="prometheus", uid="u1", groups=("monitoring",), extra={"k": ("v",)}),
            "boss": UserInfo(username="admin", groups=("system:masters",)),
        }
        self.rights: dict[tuple[str, str], set[str]] = {("prometheus", "get"): {"/metrics"}}
        self.reviews: list[TokenReview | SubjectAccessReview] = []
        self.fault: Callable[[str], Coroutine[Any, Any, None]] | None = None

    async def create(self, obj: T) -> T:
        if not isinstance(obj, TokenReview | SubjectAccessReview):
            return await super().create(obj)
        self.reviews.append(obj)
        if self.fault is not None:
            await self.fault(obj.kind)
        status = self._token(obj) if isinstance(obj, TokenReview) else self._access(obj)
        return msgspec.structs.replace(obj, status=status)

    def _token(self, review: TokenReview) -> TokenReviewStatus:
        user = self.tokens.get(review.spec.token)
        if user is None:
            return TokenReviewStatus(error="invalid bearer token")
        return TokenReviewStatus(authenticated=True, user=user)

    def _access(self, review: SubjectAccessReview) -> SubjectAccessReviewStatus:
        asked = review.spec.non_resource_attributes
        assert asked is not None
        allowed = asked.path in self.rights.get((review.spec.user, asked.verb), set())
        return SubjectAccessReviewStatus(allowed=allowed, reason="" if allowed else "no rule")

    @property
    def kinds(self) -> list[str]:
        return [review.kind for review in self.reviews]


class Open:
    """Implements `Access`; serves every client."""

    def is_open(self, path: str) -> bool:
        return path in OPEN_PATHS

    async def refusal(self, request: Request) -> Response | None:
        return None


def page(text: str) -> Handler:
    return lambda _request: Response.text(text)


__all__ = ["Answer", "Authority", "FakeClock", "Open", "Reviewer", "fetch", "page", "run", "trusting"]
