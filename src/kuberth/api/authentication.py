"""The authentication.k8s.io group (v1): reviews of tokens by the API server."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import Wire, always


class UserInfo(Wire):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class TokenReviewSpec(Wire):
    token: str = ""
    audiences: tuple[str, ...] = ()

    def __repr__(self) -> str:
        # A review may be printed in a message or a traceback, its token must not.
        return f"TokenReviewSpec(token='...', audiences={self.audiences!r})"


class TokenReviewStatus(Wire):
    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: tuple[str, ...] = ()
    error: str = ""


class TokenReview(Wire):
    api_version: str = always("authentication.k8s.io/v1")
    kind: str = always("TokenReview")
    metadata: ObjectMeta = ObjectMeta()
    spec: TokenReviewSpec = TokenReviewSpec()
    status: TokenReviewStatus = TokenReviewStatus()
