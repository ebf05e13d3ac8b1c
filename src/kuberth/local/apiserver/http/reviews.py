"""TokenReviews, SubjectAccessReviews and similar kinds, which are answered but not stored.

In: a review. Out: the same with its status. Every authenticated user is allowed everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kuberth.https.users import User
from kuberth.local.apiserver.http.authentication import Authenticator, is_open
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.refusals import bad_request
from kuberth.local.apiserver.resources import ServedResource

Answer = Callable[[Obj, User, Authenticator], Obj]

_ALL: Final = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}


def _user_object(user: User) -> Obj:
    return {"username": user.name, "groups": list(user.groups)}


def _review_token(spec: Obj, _user: User, authenticator: Authenticator) -> Obj:
    token = spec.get("token")
    found = authenticator.user_of_token(token) if isinstance(token, str) else None
    return {"authenticated": True, "user": _user_object(found)} if found else {"authenticated": False}


def _review_self(_spec: Obj, user: User, _authenticator: Authenticator) -> Obj:
    return {"userInfo": _user_object(user)}


def _review_own_access(_spec: Obj, _user: User, _authenticator: Authenticator) -> Obj:
    return {"allowed": True, "reason": "every authenticated user is admin"}


def _review_rules(_spec: Obj, _user: User, _authenticator: Authenticator) -> Obj:
    return {
        "resourceRules": [dict(_ALL)],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


def _review_access(spec: Obj, _user: User, _authenticator: Authenticator) -> Obj:
    groups = spec.get("groups")
    known = bool(spec.get("user") or groups) and spec.get("user") != "system:anonymous"
    if isinstance(groups, list) and "system:unauthenticated" in groups:
        known = False
    attributes: Any = spec.get("nonResourceAttributes")
    path = attributes.get("path") if isinstance(attributes, dict) else None
    if known or (isinstance(path, str) and is_open(path)):
        return {"allowed": True, "reason": "every authenticated user is admin"}
    return {"allowed": False, "reason": "anonymous users see only health and version"}


_ANSWERS: Final[dict[tuple[str, str], Answer]] = {
    ("authentication.k8s.io", "TokenReview"): _review_token,
    ("authentication.k8s.io", "SelfSubjectReview"): _review_self,
    ("authorization.k8s.io", "LocalSubjectAccessReview"): _review_access,
    ("authorization.k8s.io", "SelfSubjectAccessReview"): _review_own_access,
    ("authorization.k8s.io", "SelfSubjectRulesReview"): _review_rules,
    ("authorization.k8s.io", "SubjectAccessReview"): _review_access,
}
REVIEWS: Final = tuple(
    ServedResource(group, "v1", kind, f"{kind.lower()}s", namespaced=kind.startswith("Local"))
    for group, kind in _ANSWERS
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
        "status": _ANSWERS[row.group, row.kind](spec, user, authenticator),
    }
