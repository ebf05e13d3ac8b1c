from __future__ import annotations

from pathlib import Path

import pytest

from kuberth.client.identity.kubeconfig import in_cluster_config, runs_in_cluster
from kuberth.errors import ConfigError

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    for name, text in (("token", "t"), ("ca.crt", "ca"), ("namespace", "kube-system\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_pod_finds_its_server_token_and_namespace(account: Path) -> None:
    config = in_cluster_config(service_account=account, environment=POD)
    assert config.server == "https://10.96.0.1:443"
    assert config.token_file == str(account / "token")
    assert config.tls.ca_file == str(account / "ca.crt")
    assert config.namespace == "kube-system"
    assert runs_in_cluster(service_account=account, environment=POD)


def test_an_ipv6_server_is_bracketed(account: Path) -> None:
    config = in_cluster_config(
        service_account=account, environment={**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}
    )
    assert config.server == "https://[fd00::1]:443"
    assert config.address.host == "fd00::1"


def test_the_downward_api_may_name_the_namespace(account: Path) -> None:
    assert (
        in_cluster_config(service_account=account, environment={**POD, "POD_NAMESPACE": "mine"}).namespace
        == "mine"
    )


def test_outside_of_a_pod(account: Path) -> None:
    assert not runs_in_cluster(service_account=account, environment={})
    with pytest.raises(ConfigError, match=r"KUBERNETES_SERVICE_HOST.*--kubeconfig"):
        in_cluster_config(service_account=account, environment={})


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_pod_without_a_service_account(account: Path, missing: str) -> None:
    (account / missing).unlink()
    with pytest.raises(ConfigError, match=rf"{missing}.*automountServiceAccountToken"):
        in_cluster_config(service_account=account, environment=POD)
