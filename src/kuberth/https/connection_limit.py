"""The limit of open connections, and which one is closed for a new one.

In: connections that open, become idle and close. Out: whether a new one is admitted. Anonymous connections
are closed before authenticated ones, idle before busy ones, and of equals the one that has been idle longest.
A busy connection of an authenticated client is never closed, so that its watch survives any number of
anonymous ones.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class LimitedConnection(Protocol):
    @property
    def address(self) -> str: ...
    @property
    def authenticated(self) -> bool: ...
    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        ...

    def drop(self) -> None:
        """Close at once, also in the middle of an answer."""


C = TypeVar("C", bound=LimitedConnection)


class ConnectionLimit(Generic[C]):
    """The open connections: at most `most`, and at most `per_address` of one address."""

    def __init__(self, most: int, *, per_address: int | None = None) -> None:
        self._most = most
        self._per_address = most if per_address is None else per_address
        self._open: dict[C, None] = {}  # the one that has been idle longest first

    def __len__(self) -> int:
        return len(self._open)

    def connections(self) -> list[C]:
        return list(self._open)

    def admit(self, new: C) -> bool:
        """Add a connection, perhaps in the place of another; False if none can be dropped for it."""
        same_address = [other for other in self._open if other.address == new.address]
        # An address that has reached its limit replaces one of its own connections.
        if len(same_address) >= self._per_address:
            candidates = same_address
        elif len(self._open) >= self._most:
            candidates = list(self._open)
        else:
            candidates = []
        if candidates:
            droppable = [other for other in candidates if not (other.authenticated and other.busy)]
            if not droppable:
                return False
            dropped = min(droppable, key=lambda other: (other.authenticated, other.busy))
            del self._open[dropped]
            dropped.drop()
        self._open[new] = None
        return True

    def mark_idle(self, connection: C) -> None:
        """The connection has just become idle."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None

    def remove(self, connection: C) -> None:
        self._open.pop(connection, None)
