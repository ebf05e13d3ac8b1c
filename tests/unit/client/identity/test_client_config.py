from __future__ import annotations

import dataclasses

import pytest

from kuberth.client.identity.client_config import (
    ClientConfig,
    ExecPlugin,
    Proxy,
    Secret,
    TlsSettings,
    parse_server,
)

SECRETS = ("s3cret-token", "s3cret-password", "s3cret-key", "s3cret-env", "s3cret-proxy")
CONFIG = ClientConfig(
    server="https://h:6443",
    token=Secret(SECRETS[0]),
    username="ann",
    password=Secret(SECRETS[1]),
    tls=TlsSettings(certificate_data="c", key_data=Secret(SECRETS[2])),
    exec_plugin=ExecPlugin(command="login", api_version="v1", env={"KEY": SECRETS[3]}),
    proxy=Proxy(host="p", port=1, authorization=Secret(SECRETS[4])),
)


@pytest.mark.parametrize(
    "text", [repr(CONFIG), str(CONFIG), f"{CONFIG!r}", f"{CONFIG.proxy}", str(vars(Secret))], ids=range(5)
)
def test_no_text_of_a_configuration_holds_a_secret(text: str) -> None:
    assert not any(secret in text for secret in SECRETS)


def test_the_rest_can_be_read() -> None:
    assert "https://h:6443" in repr(CONFIG)
    assert "ann" in repr(CONFIG)


def test_a_secret_is_shown_only_by_reveal() -> None:
    secret = Secret("x")
    assert secret.reveal() == "x"
    assert secret == Secret("x")
    assert secret != "x"
    assert hash(secret) == hash(Secret("x"))
    assert "x" not in f"{secret} {secret!r} {secret!s}"


def test_copies_keep_their_secrets_hidden() -> None:
    assert "s3cret" not in repr(dataclasses.replace(CONFIG, namespace="n"))


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://h", "https://h:443"),
        ("https://h:6443/", "https://h:6443"),
        ("https://h/k8s/clusters/c-1/", "https://h:443/k8s/clusters/c-1"),
        ("http://h", "http://h:80"),
        ("h:8080", "http://h:8080"),
        ("https://[::1]:6443", "https://[::1]:6443"),
    ],
)
def test_server_addresses(server: str, expected: str) -> None:
    assert str(parse_server(server, where="x")) == expected
