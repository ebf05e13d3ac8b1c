from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _away_from_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the kubeconfig, proxies or pod of the user that runs it."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "POD_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
