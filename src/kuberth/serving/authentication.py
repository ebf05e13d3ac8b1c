"""Authentication: by client certificate, by a bearer token that the API server reviews, or anonymous.

In: a request. Out: a `User`, or None for an unknown token. Tokens are cached only as fingerprints, keyed with
a secret of this process.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from typing import Final

from kuberth.api.authentication import TokenReview, TokenReviewSpec
from kuberth.client.protocol import Api
from kuberth.clock import Clock
from kuberth.https.messages import Request
from kuberth.https.users import ANONYMOUS, User, certified_user
from kuberth.serving.expiring import ExpiringCache

logger = logging.getLogger(__name__)

CACHE_SECONDS: Final = 10.0
CACHE_SIZE: Final = 1024
REVIEW_SECONDS: Final = 10.0


class Authentication:
    """Finds the user of a request. A client certificate takes precedence over a token, as upstream."""

    def __init__(self, api: Api, *, clock: Clock) -> None:
        self._api = api
        self._secret = secrets.token_bytes(32)
        # None: the API server does not know the token.
        self._known: ExpiringCache[bytes, tuple[User | None]] = ExpiringCache(
            clock, seconds=CACHE_SECONDS, size=CACHE_SIZE
        )

    async def user(self, request: Request) -> User | None:
        """The user; raises the API's errors, after which the user is unknown."""
        if (user := certified_user(request.certificate)) is not None:
            return user
        scheme, _, token = request.headers.get("authorization", "").strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        fingerprint = hashlib.blake2b(token.encode("latin-1"), key=self._secret).digest()
        known = self._known.get(fingerprint)
        if known is None:
            known = (await self._review(token),)
            self._known.put(fingerprint, known)
        return known[0]

    async def _review(self, token: str) -> User | None:
        async with asyncio.timeout(REVIEW_SECONDS):
            review = await self._api.create(TokenReview(spec=TokenReviewSpec(token=token)))
        status = review.status
        if not status.authenticated:
            logger.info("a bearer token was refused: %s", status.error or "unknown token")
            return None
        user = status.user
        return User.authenticated(user.username, user.groups, uid=user.uid, extra=user.extra)
