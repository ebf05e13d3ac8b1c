"""Kubeconfig files for the tests, and for what users get wrong in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.certificates import PairFiles


def write_kubeconfig(
    file: Path, *, server: str, ca_file: Path, token: str = "", client: PairFiles | None = None
) -> Path:
    """One cluster, one user, one context. JSON is YAML."""
    user: dict[str, Any] = {"token": token} if token else {}
    if client is not None:
        user = {"client-certificate": str(client.certificate), "client-key": str(client.key)}
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "e2e", "user": user}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
        "current-context": "e2e",
    }
    file.write_text(json.dumps(tree, indent=2), encoding="utf-8")
    file.chmod(0o600)
    return file
