"""Which connection is dropped when there are too many."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kuberth.https.connection_limit import ConnectionLimit


@dataclass(eq=False)
class Visitor:
    """Implements `LimitedConnection`."""

    name: str
    authenticated: bool = False
    busy: bool = False
    address: str = "10.0.0.1"
    left: list[str] = field(default_factory=list)

    def drop(self) -> None:
        self.left.append(self.name)


def visitor(text: str) -> Visitor:
    """A name, and letters for its address and what it is: "bob:kb@2" is known and busy, from address 2."""
    text, _, address = text.partition("@")
    name, _, letters = text.partition(":")
    return Visitor(name, "k" in letters, "b" in letters, address or "1")


@pytest.mark.parametrize(
    "inside, leaves",
    [
        ("old new", "old"),
        ("known:k stranger", "stranger"),
        ("busy:b idle", "idle"),
        ("known:k busy:b", "busy"),
        ("watch:kb known:k", "known"),
        ("watch:kb other:kb", None),
    ],
)
def test_which_one_is_dropped_for_a_new_one(inside: str, leaves: str | None) -> None:
    limit: ConnectionLimit[Visitor] = ConnectionLimit(2)
    guests = [visitor(text) for text in inside.split()]
    assert all(limit.admit(guest) for guest in guests)
    newcomer = visitor("newcomer")
    assert limit.admit(newcomer) is (leaves is not None)
    assert [name for guest in guests for name in guest.left] == ([leaves] if leaves else [])
    assert len(limit) == 2
    assert (newcomer in limit.connections()) is (leaves is not None)


@pytest.mark.parametrize(
    "inside, newcomer, leaves",
    [
        ("a@1 b@2 c@2", "d@2", "b"),
        ("a@1 b@2 c@2", "d@1", None),
        ("a@1 b:kb@2 c:kb@2", "d@2", "refused"),
    ],
    ids=("its own oldest", "there is room", "its own are all at work"),
)
def test_an_address_over_its_limit_replaces_its_own_connections(
    inside: str, newcomer: str, leaves: str | None
) -> None:
    limit: ConnectionLimit[Visitor] = ConnectionLimit(4, per_address=2)
    guests = [visitor(text) for text in inside.split()]
    assert all(limit.admit(guest) for guest in guests)
    assert limit.admit(visitor(newcomer)) is (leaves != "refused")
    left = [name for guest in guests for name in guest.left]
    assert left == ([leaves] if leaves not in (None, "refused") else [])


def test_the_oldest_connection_is_the_one_idle_longest() -> None:
    limit: ConnectionLimit[Visitor] = ConnectionLimit(3)
    first, second, third = guests = [visitor(name) for name in ("first", "second", "third")]
    assert all(limit.admit(guest) for guest in guests)
    limit.mark_idle(first)
    limit.remove(second)
    limit.mark_idle(second)  # it is closed and stays so
    assert limit.connections() == [third, first]
    assert limit.admit(visitor("fourth"))
    assert limit.admit(visitor("fifth"))
    assert third.left == ["third"]
