from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from kuberth.local.apiserver.http.credentials import ClusterCredentials, kubeconfig

FILES = ("admin.crt", "admin.key", "ca.crt", "ca.key", "server.crt", "server.key", "token")
NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def make(folder: Path, *, now: datetime.datetime = NOW, names: tuple[str, ...] = ()) -> ClusterCredentials:
    return ClusterCredentials.in_directory(folder, now=now, names=names)


def test_only_the_owner_can_read_them(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "pki"
    make(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == dict.fromkeys(
        FILES, 0o600
    )


def test_files_that_were_opened_to_others_are_closed_again(tmp_path: Path) -> None:
    make(tmp_path)
    for path in tmp_path.iterdir():
        path.chmod(0o644)
    make(tmp_path)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())


def test_a_restart_reuses_them(tmp_path: Path) -> None:
    first = make(tmp_path)
    before = contents(tmp_path)
    assert make(tmp_path, now=NOW + 300 * DAY) == first
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "days, changed",
    [
        (334, set()),
        (336, {"admin.crt", "admin.key", "server.crt", "server.key"}),
        (3000, {"admin.crt", "admin.key", "server.crt", "server.key"}),
        # A CA that would end before what it signs.
        (3300, {"admin.crt", "admin.key", "ca.crt", "ca.key", "server.crt", "server.key"}),
    ],
)
def test_renewal_before_the_end(tmp_path: Path, days: int, changed: set[str]) -> None:
    make(tmp_path)
    before = contents(tmp_path)
    make(tmp_path, now=NOW + days * DAY)
    after = contents(tmp_path)
    assert {name for name in FILES if before[name] != after[name]} == changed


@pytest.mark.parametrize("back", [DAY, 400 * DAY, 4000 * DAY], ids=("a day", "a year", "decades"))
def test_a_clock_that_is_back_changes_nothing_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, back: datetime.timedelta
) -> None:
    first = make(tmp_path)
    before = contents(tmp_path)
    assert make(tmp_path, now=NOW - back) == first
    assert contents(tmp_path) == before
    [line] = caplog.messages
    assert "is valid from 2026-05-31 23:00 UTC on" in line
    assert f"clock says {NOW - back:%Y-%m-%d} 00:00 UTC: is the clock right?" in line


@pytest.mark.parametrize(
    ("days", "logged"),
    [
        (0, []),
        (340, ["admin.crt ends on 2027-06-01", "server.crt ends on 2027-06-01"]),
        (400, ["admin.crt ended on 2027-06-01", "server.crt ended on 2027-06-01"]),
        (3300, ["and is replaced by a new one: copies of the kubeconfig made before trust the server no"]),
    ],
)
def test_renewed_credentials_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, days: int, logged: list[str]
) -> None:
    make(tmp_path)
    make(tmp_path, now=NOW + days * DAY)
    assert len(caplog.messages) == len(logged)
    for words, line in zip(logged, sorted(caplog.messages), strict=True):
        assert words in line


def test_none_are_kept_in_memory() -> None:
    first, second = ClusterCredentials.in_memory(names=("10.1.2.3",)), ClusterCredentials.in_memory()
    first.server_certificates().context()
    assert first.ca_certificate != second.ca_certificate
    assert first.token != second.token


def test_a_new_name_needs_a_new_server_certificate(tmp_path: Path) -> None:
    make(tmp_path)
    before = contents(tmp_path)
    make(tmp_path, names=("10.1.2.3", "kuberth.example", "0:0:0:0:0:0:0:2"))
    after = contents(tmp_path)
    assert {name for name in FILES if before[name] != after[name]} == {"server.crt", "server.key"}
    certificate = x509.load_pem_x509_certificate(after["server.crt"])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(name.value) for name in names} == {
        "localhost",
        "127.0.0.1",
        "::1",
        "::2",
        "10.1.2.3",
        "kuberth.example",
    }
    make(tmp_path, names=("::2",))
    assert contents(tmp_path) == after


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [None, b"", b"nonsense"], ids=("gone", "empty", "nonsense"))
def test_damaged_files_are_replaced(tmp_path: Path, name: str, damage: bytes | None) -> None:
    make(tmp_path)
    if damage is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(damage)
    credentials = make(tmp_path)
    assert contents(tmp_path).keys() == set(FILES)
    assert contents(tmp_path)[name] != damage
    credentials.server_certificates().context()
    assert make(tmp_path) == credentials


def test_a_key_of_another_certificate(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "server.key").write_bytes((tmp_path / "admin.key").read_bytes())
    make(tmp_path).server_certificates().context()


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    credentials = make(tmp_path)
    assert credentials.token not in repr(credentials)
    assert "PRIVATE KEY" not in repr(credentials)


def test_the_kubeconfig_is_complete(tmp_path: Path) -> None:
    tree = yaml.safe_load(kubeconfig("https://127.0.0.1:6443", make(tmp_path)))
    assert tree["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert tree["current-context"] == tree["contexts"][0]["name"] == "kuberth"
    assert set(tree["users"][0]["user"]) == {"client-certificate-data", "client-key-data", "token"}
