"""What the API server itself recorded: which user bound which pod, and which requests it refused.

The strongest witness for "bound once, by its own scheduler": it sees every request, also those whose
answers were lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "Metadata", "users": ["system:kube-scheduler"]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True)
class BindRequest:
    user: str
    namespace: str
    pod: str
    status: int
    """The HTTP status of the answer."""


class AuditLog:
    """The API server's audit log, read from a mark on."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.starting: list[tuple[int, int]] = []
        """Parts written while the API server started: it refuses anyone until it has read its own roles."""

    def mark(self) -> int:
        """Where the log ends now."""
        return self.file.stat().st_size if self.file.exists() else 0

    def entries(self, since: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
        """Every entry after a mark, with the place where it begins."""
        if not self.file.exists():
            return
        place = since
        with self.file.open("rb") as lines:
            lines.seek(since)
            for line in lines:
                if line.endswith(b"\n"):
                    yield place, json.loads(line)
                place += len(line)

    def binds(self, since: int = 0) -> list[BindRequest]:
        return [
            BindRequest(
                user=entry["user"]["username"],
                namespace=entry["objectRef"]["namespace"],
                pod=entry["objectRef"]["name"],
                status=entry.get("responseStatus", {}).get("code", 0),
            )
            for _, entry in self.entries(since)
            if entry.get("objectRef", {}).get("subresource") == "binding" and entry["verb"] == "create"
        ]

    def forbidden(self, user: str, since: int = 0) -> list[str]:
        """Requests that RBAC refused, as "verb resource"."""
        return sorted(
            {
                f"{entry['verb']} {_resource(entry)}"
                for place, entry in self.entries(since)
                if entry["user"]["username"] == user
                and entry.get("responseStatus", {}).get("code") == 403
                and not any(start <= place < end for start, end in self.starting)
            }
        )


def _resource(entry: dict[str, Any]) -> str:
    ref = entry.get("objectRef")
    if not ref:
        return str(entry["requestURI"])
    resource = "/".join(filter(None, (ref.get("resource"), ref.get("subresource"))))
    return ".".join(filter(None, (resource, ref.get("apiGroup"))))
