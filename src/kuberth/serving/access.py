"""Access control: which requests reach their page.

In: a request. Out: None to admit it, else the response that refuses it. Health is open, so that probes need
no token. For other pages the API server decides; while it cannot be reached, requests are refused.
"""

from __future__ import annotations

import json
import logging
from typing import Final, Protocol

from kuberth.client.protocol import Api
from kuberth.clock import Clock
from kuberth.errors import KuberthError
from kuberth.https.messages import Request, Response
from kuberth.serving.authentication import Authentication
from kuberth.serving.authorization import Authorization
from kuberth.serving.messages import failure, internal_error

logger = logging.getLogger(__name__)

OPEN_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz"})


class Access(Protocol):
    def is_open(self, path: str) -> bool:
        """Whether the path needs no permission."""
        ...

    async def refusal(self, request: Request) -> Response | None: ...


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
        self._authentication = Authentication(api, clock=clock)
        self._authorization = Authorization(authorization_api or api, clock=clock)
        self._open_paths = open_paths

    def is_open(self, path: str) -> bool:
        return path in self._open_paths

    async def refusal(self, request: Request) -> Response | None:
        if self.is_open(request.path):
            return None
        try:
            user = await self._authentication.user(request)
        except (KuberthError, OSError, TimeoutError) as error:
            return _unanswered(request, "who asks (TokenReview)", error)
        if user is None:
            return failure(401, "Unauthorized", "Unauthorized")
        request.identify(user)
        verb = request.method.lower()
        try:
            decision = await self._authorization.decide(user, verb=verb, path=request.path)
        except (KuberthError, OSError, TimeoutError) as error:
            return _unanswered(request, f"whether {user.name} may (SubjectAccessReview)", error)
        if decision.allowed:
            return None
        message = f"forbidden: User {json.dumps(user.name)} cannot {verb} path {json.dumps(request.path)}"
        if decision.reason:
            message += f": {decision.reason}"
        return failure(403, "Forbidden", message, details={})


def _unanswered(request: Request, question: str, error: BaseException) -> Response:
    problem = f"the API server did not say {question}"
    logger.warning("%s %s: %s: %s", request.method, request.path, problem, str(error) or "no answer in time")
    # A client without access does not get the details.
    return internal_error(request, f"{problem}; the scheduler's log says why")
