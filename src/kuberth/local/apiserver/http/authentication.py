"""Authentication, authorization and reviews: a client certificate or a token gives admin rights.

In: a request. Out: a user, or a 401 or 403; without credentials, only health is accessible. Tokens of service
accounts, as `kubectl create token` requests them, are JWTs that this server signs and accepts, until they
expire or their service account is deleted. Reviews (TokenReview, SubjectAccessReview and similar kinds) are
answered but not stored.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import Any, Final

from kuberth.clock import NANOSECONDS, Clock
from kuberth.https.messages import ANONYMOUS, Request, User, certified_user
from kuberth.local.apiserver.http.credentials import ADMIN, ADMIN_GROUP
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import StatusError, bad_request, invalid, invalid_value
from kuberth.local.apiserver.verbs.core import Core
from kuberth.text.timestamps import timestamp

TOKEN_REQUEST: Final = ServedResource("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests")
_ACCOUNTS: Final = "serviceaccounts"
_ISSUER: Final = "https://kubernetes.default.svc"
_DEFAULT_SECONDS: Final = 3600
_LEAST_SECONDS: Final = 600
_MOST_SECONDS: Final = 2**32


class AccountTokens:
    """Signs and verifies tokens with a key derived from `secret`."""

    def __init__(self, core: Core, *, secret: str, clock: Clock) -> None:
        self._core = core
        self._key = hashlib.sha256(b"service account tokens:" + secret.encode()).digest()
        self._clock = clock

    async def issue(self, namespace: str, name: str, body: Any) -> Obj:
        """Answer a TokenRequest; StatusError 404 without the account, 422 for an invalid lifetime."""
        if not isinstance(body, dict) or body.get("kind", TOKEN_REQUEST.kind) != TOKEN_REQUEST.kind:
            raise bad_request("the body of the request is no TokenRequest")
        spec = body.get("spec") or {}
        audiences = spec.get("audiences") or [_ISSUER] if isinstance(spec, dict) else None
        seconds = spec.get("expirationSeconds") or _DEFAULT_SECONDS if isinstance(spec, dict) else None
        if not isinstance(audiences, list) or not isinstance(seconds, int):
            raise bad_request("spec.audiences must be a list and spec.expirationSeconds a number")
        account = await self._core.get(_ACCOUNTS, name, namespace=namespace)
        if not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
            limit = "less than 10 minutes" if seconds < _LEAST_SECONDS else "larger than 2^32 seconds"
            cause = invalid_value("spec.expirationSeconds", seconds, f"may not specify a duration {limit}")
            raise invalid(TOKEN_REQUEST, "", [cause])
        now = self._clock.now_ns() // NANOSECONDS
        claims = {
            "aud": audiences,
            "exp": now + seconds,
            "iat": now,
            "iss": _ISSUER,
            "kubernetes.io": {
                "namespace": namespace,
                "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]},
            },
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        return {
            "kind": TOKEN_REQUEST.kind,
            "apiVersion": TOKEN_REQUEST.api_version,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
            "status": {
                "token": self._signed(claims),
                "expirationTimestamp": timestamp((now + seconds) * NANOSECONDS),
            },
        }

    def user_of(self, token: str) -> User | None:
        """The user of a token; None if it is not valid now."""
        signed, _, signature = token.rpartition(".")
        if not signed or not hmac.compare_digest(signature.encode(), self._signature(signed)):
            return None
        try:
            claims = json.loads(_decoded(signed.partition(".")[2]))
        except (ValueError, binascii.Error):
            return None
        if claims["exp"] * NANOSECONDS <= self._clock.now_ns() or _ISSUER not in claims["aud"]:
            return None
        of = claims["kubernetes.io"]
        account = self._core.find(_ACCOUNTS, of["serviceaccount"]["name"], namespace=of["namespace"])
        if account is None or account["metadata"]["uid"] != of["serviceaccount"]["uid"]:
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{of['namespace']}")
        return User.authenticated(claims["sub"], groups, uid=account["metadata"]["uid"])

    def _signed(self, claims: Obj) -> str:
        parts = (json.dumps(each, separators=(",", ":")).encode() for each in ({"alg": "HS256"}, claims))
        signed = ".".join(_encoded(part) for part in parts)
        return f"{signed}.{self._signature(signed).decode()}"

    def _signature(self, signed: str) -> bytes:
        return _encoded(hmac.digest(self._key, signed.encode(), "sha256")).encode()


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


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


_REVIEWED: Final = (
    ("authentication.k8s.io", "TokenReview"),
    ("authentication.k8s.io", "SelfSubjectReview"),
    ("authorization.k8s.io", "LocalSubjectAccessReview"),
    ("authorization.k8s.io", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "SubjectAccessReview"),
)
REVIEWS: Final = tuple(
    ServedResource(
        group, "v1", kind, f"{kind.lower()}s", namespaced=kind.startswith("Local"), verbs=("create",)
    )
    for group, kind in _REVIEWED
)


def answer_review(row: ServedResource, body: Any, *, user: User, authenticator: Authenticator) -> Obj:
    if not isinstance(body, dict) or body.get("kind", row.kind) != row.kind:
        raise bad_request(f"the body of the request is no {row.kind}")
    spec = body.get("spec") or {}
    if not isinstance(spec, dict):
        raise bad_request("spec must be an object")
    return {
        "kind": row.kind,
        "apiVersion": row.api_version,
        "metadata": {},
        "spec": spec,
        "status": _review_status(row.kind, spec, user, authenticator),
    }


def _review_status(kind: str, spec: Obj, user: User, authenticator: Authenticator) -> Obj:
    match kind:
        case "TokenReview":
            token = spec.get("token")
            found = authenticator.user_of_token(token) if isinstance(token, str) else None
            return {"authenticated": bool(found)} | ({"user": _user_object(found)} if found else {})
        case "SelfSubjectReview":
            return {"userInfo": _user_object(user)}
        case "SelfSubjectRulesReview":
            everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            paths = {"verbs": ["*"], "nonResourceURLs": ["*"]}
            return {"resourceRules": [everything], "nonResourceRules": [paths], "incomplete": False}
    if kind == "SelfSubjectAccessReview" or _is_allowed(spec):
        return {"allowed": True, "reason": "every authenticated user is admin"}
    return {"allowed": False, "reason": "anonymous users see only health and version"}


def _is_allowed(spec: Obj) -> bool:
    """Whether the user of an access review is authenticated, or the path is open to all."""
    groups, attributes = spec.get("groups"), spec.get("nonResourceAttributes")
    path = attributes.get("path") if isinstance(attributes, dict) else None
    if isinstance(path, str) and is_open(path):
        return True
    if isinstance(groups, list) and "system:unauthenticated" in groups:
        return False
    return bool(spec.get("user") or groups) and spec.get("user") != "system:anonymous"


def _user_object(user: User) -> Obj:
    return {"username": user.name, "groups": list(user.groups)}
