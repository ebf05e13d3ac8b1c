"""Who stays when there are more connections than places.

In: guests that come, rest and go. Out: whether there is room, made by asking others to leave: strangers
before those who proved who they are, the idle before the busy, the oldest first. Somebody known is never
interrupted: a watch lives through any number of strangers.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class Guest(Protocol):
    """`known`: it proved who it is. `busy`: a request of it is being answered."""

    @property
    def address(self) -> str: ...
    @property
    def known(self) -> bool: ...
    @property
    def busy(self) -> bool: ...
    def leave(self) -> None:
        """At once, whatever it is doing."""


G = TypeVar("G", bound=Guest)


class Crowd(Generic[G]):
    def __init__(self, places: int, *, per_address: int | None = None) -> None:
        self._places = places
        self._per_address = places if per_address is None else per_address
        self._guests: dict[G, None] = {}  # the one that has rested longest first

    def __len__(self) -> int:
        return len(self._guests)

    def guests(self) -> list[G]:
        return list(self._guests)

    def admit(self, guest: G) -> bool:
        """False if nobody can be asked to leave for it."""
        neighbours = [other for other in self._guests if other.address == guest.address]
        # An address that holds its share makes room among its own.
        if len(neighbours) >= self._per_address:
            crowded = neighbours
        elif len(self._guests) >= self._places:
            crowded = list(self._guests)
        else:
            crowded = []
        if crowded:
            leaving = [other for other in crowded if not (other.known and other.busy)]
            if not leaving:
                return False
            last = min(leaving, key=lambda other: (other.known, other.busy))
            del self._guests[last]
            last.leave()
        self._guests[guest] = None
        return True

    def note_rest(self, guest: G) -> None:
        """It begins to be idle now."""
        if guest in self._guests:
            del self._guests[guest]
            self._guests[guest] = None

    def remove(self, guest: G) -> None:
        self._guests.pop(guest, None)
