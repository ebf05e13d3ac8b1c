"""Access control for pages.

In: a request. Out: None to allow it, else the error response. Health is open, so that probes need no token.
For other pages, the API server decides with TokenReview and SubjectAccessReview; while it is not reachable,
requests are rejected. Tokens are cached only as fingerprints, keyed with a secret of this process.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from kuberth.api.authentication import TokenReview, TokenReviewSpec
from kuberth.api.authorization import NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from kuberth.api.wire import encode
from kuberth.client.protocol import Api
from kuberth.clock import NANOSECONDS, Clock
from kuberth.errors import KuberthError
from kuberth.https.messages import ANONYMOUS, Request, Response, User, certified_user
from kuberth.serving.messages import failure, internal_error

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

OPEN_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz"})
PRIVILEGED: Final = "system:masters"
"""The group whose members may do everything, as in the API server."""
CACHE_SECONDS: Final = 10.0
"""How long an answer is cached, allowed or not, as upstream."""
CACHE_SIZE: Final = 1024
LONGEST_CACHED_PATH: Final = 1000
REVIEW_SECONDS: Final = 10.0


class Access(Protocol):
    def is_open(self, path: str) -> bool:
        """Whether the path needs no permission."""
        ...

    async def refusal(self, request: Request) -> Response | None: ...


class ExpiringCache(Generic[K, V]):
    """Drops the oldest entry when it is full."""

    def __init__(self, clock: Clock, *, seconds: float, size: int) -> None:
        self._clock = clock
        self._age_ns = round(seconds * NANOSECONDS)
        self._size = size
        self._entries: dict[K, tuple[int, V]] = {}

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        until_ns, value = entry
        if until_ns <= self._clock.now_ns():
            del self._entries[key]
            return None
        return value

    def put(self, key: K, value: V) -> None:
        self._entries.pop(key, None)
        if len(self._entries) >= self._size:
            # All entries live equally long, so the first one in is the first to expire.
            del self._entries[next(iter(self._entries))]
        self._entries[key] = (self._clock.now_ns() + self._age_ns, value)

    def __len__(self) -> int:
        return len(self._entries)


class Decision(NamedTuple):
    allowed: bool
    reason: str = ""


class DelegatedAccess:
    """Implements `Access` by TokenReview and SubjectAccessReview."""

    def __init__(
        self,
        api: Api,
        *,
        clock: Clock,
        authorization_api: Api | None = None,
        open_paths: frozenset[str] = OPEN_PATHS,
    ) -> None:
        """`authorization_api`: for access reviews, if it differs from the one for token reviews."""
        self._api = api
        self._authorization_api = authorization_api or api
        self._open_paths = open_paths
        self._secret = secrets.token_bytes(32)
        # Users by fingerprint of their token; None: the API server does not know the token.
        self._users: ExpiringCache[bytes, tuple[User | None]]
        self._users = ExpiringCache(clock, seconds=CACHE_SECONDS, size=CACHE_SIZE)
        self._decisions: ExpiringCache[bytes, Decision]
        self._decisions = ExpiringCache(clock, seconds=CACHE_SECONDS, size=CACHE_SIZE)

    def is_open(self, path: str) -> bool:
        return path in self._open_paths

    async def refusal(self, request: Request) -> Response | None:
        if self.is_open(request.path):
            return None
        question = "who asks (TokenReview)"
        try:
            user = await self._user(request)
            if user is None:
                return failure(401, "Unauthorized", "Unauthorized")
            request.identify(user)
            question = f"whether {user.name} may (SubjectAccessReview)"
            verb = request.method.lower()
            decision = await self._decide(user, verb=verb, path=request.path)
        except (KuberthError, OSError, TimeoutError) as error:
            return _unanswered(request, question, error)
        if decision.allowed:
            return None
        message = f"forbidden: User {json.dumps(user.name)} cannot {verb} path {json.dumps(request.path)}"
        if decision.reason:
            message += f": {decision.reason}"
        return failure(403, "Forbidden", message, details={})

    async def _user(self, request: Request) -> User | None:
        """The user, or None for an unknown token; a client certificate takes precedence, as upstream."""
        if (user := certified_user(request.certificate)) is not None:
            return user
        scheme, _, token = request.headers.get("authorization", "").strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        fingerprint = hashlib.blake2b(token.encode("latin-1"), key=self._secret).digest()
        known = self._users.get(fingerprint)
        if known is None:
            known = (await self._review(token),)
            self._users.put(fingerprint, known)
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

    async def _decide(self, user: User, *, verb: str, path: str) -> Decision:
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
        decision = self._decisions.get(key)
        if decision is None:
            async with asyncio.timeout(REVIEW_SECONDS):
                review = await self._authorization_api.create(SubjectAccessReview(spec=spec))
            decision = Decision(review.status.allowed and not review.status.denied, review.status.reason)
            if len(path) <= LONGEST_CACHED_PATH:
                self._decisions.put(key, decision)
        return decision


def _unanswered(request: Request, question: str, error: BaseException) -> Response:
    problem = f"the API server did not say {question}"
    logger.warning("%s %s: %s: %s", request.method, request.path, problem, str(error) or "no answer in time")
    # A client without access does not get the details.
    return internal_error(request, f"{problem}; the scheduler's log says why")
