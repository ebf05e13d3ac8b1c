"""Kubeconfig files for tests, from keywords."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def tree(
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    name: str = "dev",
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **(context or {})}}],
    }


def write(path: Path, content: dict[str, Any] | str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        # JSON is YAML.
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)
