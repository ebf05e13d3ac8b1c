from __future__ import annotations

import os
from pathlib import Path

import pytest

from kuberth.client.identity.client_config import ClientConfig, Secret
from kuberth.client.identity.credentials import Credential, TokenFile, fixed_or_file
from kuberth.errors import ConfigError
from kuberth.testing import FakeClock


def shown(credential: Credential | None) -> str:
    assert credential is not None
    assert credential.authorization is not None
    return credential.authorization.reveal()


def token_file(path: Path, clock: FakeClock, fallback: Secret | None = None) -> TokenFile:
    return TokenFile(str(path), clock, fallback=fallback, source="the test")


def rewrite(path: Path, text: str, *, unchanged_stat: bool = False) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.write(text.encode())
        file.truncate()
    moment = before.st_mtime_ns if unchanged_stat else before.st_mtime_ns + 1
    os.utime(path, ns=(moment, moment))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (ClientConfig(server="https://h", token=Secret("abc")), "Bearer abc"),
        (ClientConfig(server="https://h", token=Secret(" abc\n")), "Bearer abc"),
        (ClientConfig(server="https://h", username="u", password=Secret("p")), "Basic dTpw"),
    ],
    ids=["token", "token with a line end", "password"],
)
def test_fixed_credentials(config: ClientConfig, expected: str) -> None:
    credentials = fixed_or_file(config, FakeClock())
    credential = credentials.current_nowait()
    assert shown(credential) == expected
    assert credential is not None
    assert not credentials.refused(credential)


def test_a_configuration_without_credentials_is_anonymous() -> None:
    credential = fixed_or_file(ClientConfig(server="https://h"), FakeClock()).current_nowait()
    assert credential is not None
    assert credential.authorization is None


@pytest.mark.parametrize("token", ["", "two words", "new\nline", "schlüssel"])
def test_a_token_no_header_can_carry_is_refused_unseen(token: str) -> None:
    with pytest.raises(ConfigError) as caught:
        fixed_or_file(ClientConfig(server="https://h", token=Secret(token)), FakeClock())
    assert not token or token not in str(caught.value)


def test_a_changed_token_file_is_seen_within_a_second(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", FakeClock()
    path.write_text("one\n", encoding="utf-8")
    tokens = token_file(path, clock)
    first = tokens.current_nowait()
    rewrite(path, "two")
    assert tokens.current_nowait() is first
    clock.advance(1)
    assert shown(tokens.current_nowait()) == "Bearer two"


def test_an_unchanged_token_stays_the_same_credential(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", FakeClock()
    path.write_text("one", encoding="utf-8")
    tokens = token_file(path, clock)
    first = tokens.current_nowait()
    clock.advance(120)
    assert tokens.current_nowait() is first


def test_a_token_file_is_read_again_every_minute_even_if_it_looks_the_same(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", FakeClock()
    path.write_text("one", encoding="utf-8")
    tokens = token_file(path, clock)
    rewrite(path, "two", unchanged_stat=True)
    clock.advance(59)
    assert shown(tokens.current_nowait()) == "Bearer one"
    clock.advance(1)
    assert shown(tokens.current_nowait()) == "Bearer two"


def test_a_token_that_is_refused_is_read_again_at_once(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", FakeClock()
    path.write_text("one", encoding="utf-8")
    tokens = token_file(path, clock)
    first = tokens.current_nowait()
    assert not tokens.refused(first)
    rewrite(path, "two")
    assert tokens.refused(first)
    assert shown(tokens.current_nowait()) == "Bearer two"


def test_the_last_good_token_outlives_its_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "token", FakeClock()
    path.write_text("one", encoding="utf-8")
    tokens = token_file(path, clock)
    path.unlink()
    clock.advance(61)
    assert shown(tokens.current_nowait()) == "Bearer one"
    assert str(path) in caplog.text
    assert "one" not in caplog.text


def test_a_token_beside_the_file_serves_until_the_file_can_be_read(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", FakeClock()
    tokens = token_file(path, clock, Secret("spare"))
    assert shown(tokens.current_nowait()) == "Bearer spare"
    path.write_text("one", encoding="utf-8")
    clock.advance(1)
    assert shown(tokens.current_nowait()) == "Bearer one"


def test_without_any_token_there_is_no_beginning(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="check the path"):
        token_file(tmp_path / "token", FakeClock())
