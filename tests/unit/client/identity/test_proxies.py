from __future__ import annotations

import pytest

from kuberth.client.identity.client_config import Proxy, Secret, parse_server
from kuberth.client.identity.proxies import parse_proxy, proxy_from_environment
from kuberth.errors import ConfigError

PROXY = "http://proxy.corp:3128"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (PROXY, Proxy(host="proxy.corp", port=3128)),
        ("proxy.corp:3128", Proxy(host="proxy.corp", port=3128)),
        ("https://p", Proxy(host="p", port=443, secure=True)),
        ("http://u:p%40s@p:1", Proxy(host="p", port=1, authorization=Secret("Basic dTpwQHM="))),
    ],
)
def test_addresses(url: str, expected: Proxy) -> None:
    assert parse_proxy(url, where="x") == expected


@pytest.mark.parametrize(
    "url", ["socks5://u:s3cret@p", "ftp://u:s3cret@p", "http://u:s3cret@", "http://[s3cret"]
)
def test_what_cannot_be_used_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^here: ") as caught:
        parse_proxy(url, where="here")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("server", "no_proxy", "bypassed"),
    [
        ("https://api.corp:6443", "", False),
        ("https://api.corp:6443", "*", True),
        ("https://api.corp:6443", "corp", True),
        ("https://api.corp:6443", ".corp", True),
        ("https://api.corp:6443", "*.corp", True),
        ("https://corp:6443", ".corp", False),
        ("https://notcorp:6443", "corp", False),
        ("https://api.corp:6443", "api.corp:6443", True),
        ("https://api.corp:6443", "api.corp:443", False),
        ("https://10.96.0.1:443", "10.0.0.0/8", True),
        ("https://10.96.0.1:443", "11.0.0.0/8, nonsense/99", False),
        ("https://10.96.0.1:443", "10.96.0.1", True),
        ("https://10.96.0.1:443", "10.96.0.1:443", True),
        ("https://[fd00::1]:443", "fd00::/8", True),
        ("https://[fd00::1]:443", "fd00::1", True),
        ("https://localhost:6443", "", True),
        ("https://127.0.0.1:6443", "", True),
    ],
)
def test_no_proxy_is_read_as_go_reads_it(server: str, no_proxy: str, bypassed: bool) -> None:
    address = parse_server(server, where="x")
    found = proxy_from_environment(address, {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy})
    assert (found is None) is bypassed


def test_an_open_server_has_a_variable_of_its_own() -> None:
    address = parse_server("http://api.corp", where="x")
    assert proxy_from_environment(address, {"HTTPS_PROXY": PROXY}) is None
    assert proxy_from_environment(address, {"http_proxy": PROXY}) == Proxy(host="proxy.corp", port=3128)
