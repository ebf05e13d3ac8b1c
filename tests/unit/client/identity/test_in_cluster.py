from __future__ import annotations

from pathlib import Path

import pytest

from kuberth.client.identity import kubeconfig
from kuberth.client.identity.kubeconfig import in_cluster_config, runs_in_cluster
from kuberth.errors import ConfigError

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The service account of a pod, in which the tests run."""
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    for name, value in POD.items():
        monkeypatch.setenv(name, value)
    for name, text in (("token", "t"), ("ca.crt", "ca"), ("namespace", "kube-system\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_pod_finds_its_server_token_and_namespace(account: Path) -> None:
    config = in_cluster_config()
    assert config.server == "https://10.96.0.1:443"
    assert config.token_file == str(account / "token")
    assert config.tls.ca_file == str(account / "ca.crt")
    assert config.namespace == "kube-system"
    assert runs_in_cluster()


@pytest.mark.usefixtures("account")
def test_an_ipv6_server_is_bracketed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    config = in_cluster_config()
    assert config.server == "https://[fd00::1]:443"
    assert config.address.host == "fd00::1"


@pytest.mark.usefixtures("account")
def test_the_downward_api_may_name_the_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "mine")
    assert in_cluster_config().namespace == "mine"


@pytest.mark.usefixtures("account")
def test_outside_of_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in POD:
        monkeypatch.delenv(name)
    assert not runs_in_cluster()
    with pytest.raises(ConfigError, match=r"KUBERNETES_SERVICE_HOST.*--kubeconfig"):
        in_cluster_config()


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_pod_without_a_service_account(account: Path, missing: str) -> None:
    (account / missing).unlink()
    with pytest.raises(ConfigError, match=rf"{missing}.*automountServiceAccountToken"):
        in_cluster_config()
