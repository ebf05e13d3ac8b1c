"""What clients may cost: sizes, times and numbers, for every connection and for all of them."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Final

_OWN_FILES: Final = 128
"""Files a process needs for itself: its store, its logs, connections of its own."""


@dataclass(frozen=True, slots=True)
class Limits:
    connections: int = 100
    """With the one more that comes, whoever matters least is closed; see `Crowd`."""
    reserved: int = 10
    """How many of these only requests to open paths may keep busy, so that probes are always answered."""
    per_address: int | None = None
    """How many of these one address may hold; None for all."""
    header_bytes: int = 64 * 1024
    body_bytes: int = 3 * 1024 * 1024
    handshake_seconds: float = 10.0
    header_seconds: float = 10.0
    """From the first byte of a request, or from the connection, to the end of its header."""
    body_seconds: float = 30.0
    """From the header, or from the answer if nobody asked for the body, to the end of the body."""
    unread_seconds: float = 60.0
    """How long a client may take to read an answer, or one piece of an endless one."""
    idle_seconds: int = 120
    """Between two requests; longer than Go's clients keep a connection, so that they close it first."""
    shutdown_seconds: float = 5.0
    """How long running requests may take to end."""
    goodbye_seconds: float = 0.2
    """How long clients may take to close their connections."""


def affordable_connections(wanted: int) -> int:
    """As many as wanted, or fewer where the process may not open so many files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(files - _OWN_FILES, files // 2))
