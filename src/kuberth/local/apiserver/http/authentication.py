"""Who asks, and whether they may: everybody with a certificate or the token is admin, the rest see health.

In: a request's headers and the certificate of its connection. Out: a user, or a 401 or 403.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kuberth.local.apiserver.http.credentials import ADMIN, ADMIN_GROUP
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.status_errors import StatusError


class User(NamedTuple):
    name: str
    groups: tuple[str, ...]

    @property
    def is_anonymous(self) -> bool:
        return "system:unauthenticated" in self.groups

    def to_object(self) -> Obj:
        return {"username": self.name, "groups": list(self.groups)}


ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))
_ADMIN: Final = User(ADMIN, (ADMIN_GROUP, "system:authenticated"))
_OPEN_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version")


class Authenticator:
    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def user_of(self, headers: Mapping[str, str], certificate: Mapping[str, Any] | None) -> User:
        """The user; StatusError 401 for credentials that are not ours. None at all is the anonymous user."""
        if certificate:
            return _user_of_certificate(certificate)
        authorization = headers.get("authorization")
        if authorization is None:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        user = self.user_of_token(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise StatusError(401, "Unauthorized", "Unauthorized")
        return user

    def user_of_token(self, token: str) -> User | None:
        return _ADMIN if hmac.compare_digest(token.encode(), self._token) else None


def is_open(path: str) -> bool:
    """Whether the path may be seen by everybody."""
    return path in _OPEN_PATHS or path.startswith(tuple(f"{open_path}/" for open_path in _OPEN_PATHS))


def authorize(user: User, *, method: str, path: str) -> None:
    if user.is_anonymous and not is_open(path):
        verb = method.lower()
        raise StatusError(
            403, "Forbidden", f'forbidden: User "{user.name}" cannot {verb} path "{path}"', details={}
        )


def _user_of_certificate(certificate: Mapping[str, Any]) -> User:
    """ssl has proved that our CA signed it; what it says of its subject is then true."""
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    name = next((value for key, value in subject if key == "commonName"), "")
    groups = tuple(value for key, value in subject if key == "organizationName")
    return User(name, (*groups, "system:authenticated"))
