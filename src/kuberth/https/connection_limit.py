"""Limits of sizes, times and numbers; the limit of open connections, and which one is closed for a new one.

In: connections that open, become idle and close. Out: whether a new one is admitted. Anonymous connections
are closed before authenticated ones, idle before busy ones, and of equals the one that has been idle longest.
A busy connection of an authenticated client is never closed, so that its watch survives any number of
anonymous ones.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

_OWN_FILES: Final = 128
"""Files that a process needs for itself: its store, its logs, its own connections."""


@dataclass(frozen=True, slots=True)
class Limits:
    connections: int = 100
    """Open connections; `connection_limit` decides which one is closed for one more."""
    reserved: int = 10
    """Connections that only requests to open paths may keep busy, so that probes are always answered."""
    per_address: int | None = None
    """Connections of one address; None for all."""
    header_bytes: int = 64 * 1024
    body_bytes: int = 3 * 1024 * 1024
    handshake_seconds: float = 10.0
    header_seconds: float = 10.0
    """Seconds from the first byte of a request, or from the connection, to the end of its header."""
    body_seconds: float = 30.0
    """Seconds for a body, from the header, or from the response if the service did not read the body."""
    unread_seconds: float = 60.0
    """Seconds that a client has to read a response, or one piece of an endless one."""
    idle_seconds: int = 120
    """Seconds between two requests; longer than Go's clients keep a connection: they close it first."""
    shutdown_seconds: float = 5.0
    """Seconds that running requests have to end at shutdown."""
    close_seconds: float = 0.2
    """Seconds that clients have to close their connections at shutdown."""


def affordable_connections(wanted: int) -> int:
    """The wanted number, or fewer if the process may not open enough files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(files - _OWN_FILES, files // 2))


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
