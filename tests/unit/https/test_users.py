from __future__ import annotations

from typing import Any

import pytest

from kuberth.https.messages import User, certified_user


def subject(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"subject": tuple((pair,) for pair in pairs)}


@pytest.mark.parametrize(
    "certificate, user",
    [
        (None, None),
        ({}, None),
        (subject(("organizationName", "system:masters")), None),
        (subject(("commonName", "")), None),
        (subject(("commonName", "jane")), User("jane", ("system:authenticated",))),
        (
            subject(("organizationName", "a"), ("organizationName", "b"), ("commonName", "jane")),
            User("jane", ("a", "b", "system:authenticated")),
        ),
        (subject(("commonName", "first"), ("commonName", "last")), User("last", ("system:authenticated",))),
    ],
    ids=("none", "empty", "no name", "empty name", "a name", "groups", "two names"),
)
def test_the_user_of_a_certificate(certificate: dict[str, Any] | None, user: User | None) -> None:
    assert certified_user(certificate) == user


def test_the_group_of_the_authenticated_is_there_once() -> None:
    assert User.authenticated("x", ("system:authenticated", "y")).groups == ("system:authenticated", "y")
