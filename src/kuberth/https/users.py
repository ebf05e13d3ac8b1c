"""Users: a name and groups, from a client certificate or from a token review."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_AUTHENTICATED: Final = "system:authenticated"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def authenticated(
        cls,
        name: str,
        groups: tuple[str, ...] = (),
        *,
        uid: str = "",
        extra: Mapping[str, tuple[str, ...]] | None = None,
    ) -> User:
        groups = groups if _AUTHENTICATED in groups else (*groups, _AUTHENTICATED)
        return cls(name, groups, uid, extra or {})


ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))


def certified_user(certificate: Mapping[str, Any] | None) -> User | None:
    """The user that a certificate names: the common name, with the organizations as groups.

    The handshake has verified its signature.
    """
    subject = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    names = [value for key, value in subject if key == "commonName"]
    if not names or not names[-1]:
        return None
    return User.authenticated(names[-1], tuple(value for key, value in subject if key == "organizationName"))
