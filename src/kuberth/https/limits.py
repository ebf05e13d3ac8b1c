"""Limits of sizes, times and numbers, for every connection and for all of them."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Final

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
