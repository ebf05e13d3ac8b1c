"""Authentication and authorization: a client certificate or a token gives admin rights.

In: a request. Out: a user, or a 401 or 403; without credentials, only health is accessible.
"""

from __future__ import annotations

import hmac
from typing import Final

from kuberth.https.messages import Request
from kuberth.https.users import ANONYMOUS, User, certified_user
from kuberth.local.apiserver.http.account_tokens import AccountTokens
from kuberth.local.apiserver.http.credentials import ADMIN, ADMIN_GROUP
from kuberth.local.apiserver.status_errors import StatusError

_ADMIN: Final = User.authenticated(ADMIN, (ADMIN_GROUP,))
_OPEN_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version")


class Authenticator:
    def __init__(self, token: str, *, account_tokens: AccountTokens) -> None:
        self._token = token.encode()
        self.account_tokens = account_tokens

    def user_of(self, request: Request) -> User:
        """The user; StatusError 401 for unknown credentials. Without credentials it is the anonymous user."""
        if (user := certified_user(request.certificate)) is not None:
            return user
        authorization = request.headers.get("authorization")
        if authorization is None:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        user = self.user_of_token(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise StatusError(401, "Unauthorized", "Unauthorized")
        return user

    def user_of_token(self, token: str) -> User | None:
        if hmac.compare_digest(token.encode(), self._token):
            return _ADMIN
        return self.account_tokens.user_of(token)


def is_open(path: str) -> bool:
    """Whether the path needs no authentication."""
    return path in _OPEN_PATHS or path.startswith(tuple(f"{open_path}/" for open_path in _OPEN_PATHS))


def authorize(request: Request, *, open_pages: frozenset[str] = frozenset()) -> None:
    """StatusError 403 unless the user is authorized; `open_pages` and health need no authentication."""
    if request.user == ANONYMOUS and not is_open(request.raw_path) and request.raw_path not in open_pages:
        verb, path = request.method.lower(), request.raw_path
        message = f'forbidden: User "{request.user.name}" cannot {verb} path "{path}"'
        raise StatusError(403, "Forbidden", message, details={})
