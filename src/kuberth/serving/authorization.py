"""Authorization: the API server decides by SubjectAccessReview.

In: a user, a verb and a path. Out: allowed or not, and why. Members of system:masters may do everything, as
at the API server itself.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from kuberth.api.authorization import NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from kuberth.api.wire import encode
from kuberth.client.protocol import Api
from kuberth.clock import Clock
from kuberth.https.users import User
from kuberth.serving.expiring import ExpiringCache

PRIVILEGED: Final = "system:masters"
CACHE_SECONDS: Final = 10.0
"""How long a decision is cached, allowed or not, as upstream."""
CACHE_SIZE: Final = 1024
LONGEST_CACHED_PATH: Final = 1000
REVIEW_SECONDS: Final = 10.0


class Decision(NamedTuple):
    allowed: bool
    reason: str = ""


class Authorization:
    def __init__(self, api: Api, *, clock: Clock) -> None:
        self._api = api
        self._known: ExpiringCache[bytes, Decision] = ExpiringCache(
            clock, seconds=CACHE_SECONDS, size=CACHE_SIZE
        )

    async def decide(self, user: User, *, verb: str, path: str) -> Decision:
        """The decision; raises the API's errors, after which the request must be refused."""
        if PRIVILEGED in user.groups:
            return Decision(True)
        spec = SubjectAccessReviewSpec(
            non_resource_attributes=NonResourceAttributes(path=path, verb=verb),
            user=user.name,
            groups=user.groups,
            extra=user.extra,
            uid=user.uid,
        )
        key = encode(spec)
        decision = self._known.get(key)
        if decision is None:
            async with asyncio.timeout(REVIEW_SECONDS):
                review = await self._api.create(SubjectAccessReview(spec=spec))
            status = review.status
            decision = Decision(status.allowed and not status.denied, status.reason)
            if len(path) <= LONGEST_CACHED_PATH:
                self._known.put(key, decision)
        return decision
