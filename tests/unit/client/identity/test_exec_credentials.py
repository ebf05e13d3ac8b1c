from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import ClientConfig, ExecPlugin, TlsSettings
from kuberth.client.identity.exec_credentials import ExecCredentials
from kuberth.clock import NANOSECONDS
from kuberth.errors import UnauthorizedError
from kuberth.testing import FakeClock
from tests.certificates import authority, client_pair
from tests.unit.client.https_server import Asked, Reply, run, serve

VERSION = "client.authentication.k8s.io/v1"
ISSUED = 1_700_000_000
"""Unix seconds; 2023-11-14T22:13:20Z."""


class Plugin:
    """A shell script that prints a file's content and writes down its arguments."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._script = folder / "login"
        lines = (
            "#!/bin/sh",
            f"echo \"$KUBERNETES_EXEC_INFO $EXTRA $*\" >> '{folder}/received'",
            f"cat '{folder}/answer'",
            f"exit $(cat '{folder}/code')",
        )
        self._script.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._script.chmod(self._script.stat().st_mode | stat.S_IXUSR)
        self.answers({"token": "one"})

    def answers(self, status: Any, *, code: int = 0, **changes: Any) -> None:
        answer = {"apiVersion": VERSION, "kind": "ExecCredential", "status": status, **changes}
        self.says(json.dumps(answer), code=code)

    def says(self, text: str, *, code: int = 0) -> None:
        (self._folder / "answer").write_text(text, encoding="utf-8")
        (self._folder / "code").write_text(str(code), encoding="utf-8")

    def received(self) -> list[str]:
        path = self._folder / "received"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def config(self, **changes: Any) -> ExecPlugin:
        given = {"command": str(self._script), "api_version": VERSION, "interactive_mode": "Never"}
        return ExecPlugin(**{**given, **changes})


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


def credentials(plugin: ExecPlugin, clock: FakeClock | None = None) -> ExecCredentials:
    return ExecCredentials(plugin, clock or FakeClock(ISSUED * NANOSECONDS), source="the test")


def shown(found: ExecCredentials) -> str:
    credential = run(found.current)
    assert credential.authorization is not None
    return credential.authorization.reveal()


def test_the_answer_is_kept_while_it_lasts(plugin: Plugin) -> None:
    clock = FakeClock(ISSUED * NANOSECONDS)
    plugin.answers({"token": "one", "expirationTimestamp": "2023-11-14T22:14:20Z"})
    found = credentials(plugin.config(), clock)
    assert found.current_nowait() is None
    assert shown(found) == shown(found) == "Bearer one"
    assert len(plugin.received()) == 1
    plugin.answers({"token": "two"})
    clock.advance(59)
    assert shown(found) == "Bearer one"
    clock.advance(1)
    assert found.current_nowait() is None
    assert shown(found) == "Bearer two"
    clock.advance(1e6)
    assert shown(found) == "Bearer two"
    assert len(plugin.received()) == 2


def test_concurrent_callers_share_one_run(plugin: Plugin) -> None:
    async def main() -> None:
        found = credentials(plugin.config())
        await asyncio.gather(*(found.current() for _ in range(5)))

    run(main)
    assert len(plugin.received()) == 1


def test_the_plugin_receives_its_arguments_and_the_cluster_info(plugin: Plugin) -> None:
    config = plugin.config(args=("--a", "b c"), env={"EXTRA": "more"}, cluster_info={"server": "https://h"})
    shown(credentials(config))
    (line,) = plugin.received()
    info, rest = json.JSONDecoder().raw_decode(line)
    assert line[rest:].split() == ["more", "--a", "b", "c"]
    assert info == {
        "apiVersion": VERSION,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://h"}},
    }


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        ("not JSON s3cret", "ExecCredential in JSON"),
        (json.dumps({"apiVersion": "v1", "kind": "Pod"}), VERSION),
        (json.dumps({"apiVersion": VERSION, "kind": "ExecCredential"}), "neither"),
        (json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": {}}), "neither"),
        (
            json.dumps(
                {"apiVersion": VERSION, "kind": "ExecCredential", "status": {"clientKeyData": "s3cret"}}
            ),
            "only one",
        ),
        (
            json.dumps(
                {"apiVersion": VERSION, "kind": "ExecCredential", "status": {"token": "s3cret\n\n x"}}
            ),
            "token",
        ),
        (json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": {"token": 5}}), "JSON"),
    ],
)
def test_answers_that_do_not_help(plugin: Plugin, answer: str, part: str) -> None:
    plugin.says(answer)
    with pytest.raises(UnauthorizedError, match=part) as caught:
        shown(credentials(plugin.config()))
    assert "s3cret" not in str(caught.value)


def test_a_plugin_that_fails(plugin: Plugin, capfd: pytest.CaptureFixture[str]) -> None:
    plugin.says("s3cret", code=3)
    with pytest.raises(UnauthorizedError, match=r"exit code 3.*run it by hand") as caught:
        shown(credentials(plugin.config()))
    assert "s3cret" not in str(caught.value) + capfd.readouterr().err


def test_a_plugin_that_is_not_there(plugin: Plugin) -> None:
    config = plugin.config(command="no-such-login", install_hint="brew install \x1b[1mlogin")
    with pytest.raises(UnauthorizedError, match=r"'no-such-login'.*brew install") as caught:
        shown(credentials(config))
    assert "\x1b" not in str(caught.value)


def test_a_plugin_that_needs_a_terminal(plugin: Plugin) -> None:
    with pytest.raises(UnauthorizedError, match="terminal"):
        shown(credentials(plugin.config(interactive_mode="Always")))


def test_after_a_401_it_is_asked_again_and_so_is_the_server(plugin: Plugin) -> None:
    async def handler(asked: Asked, reply: Reply) -> None:
        if asked.header("authorization") == "Bearer one":
            plugin.answers({"token": "two"})
            await reply.status(401, reason="Unauthorized", message="Unauthorized")
        else:
            await reply.send({"metadata": {"name": "p"}})

    async def main() -> None:
        async with serve(handler) as server:
            api = HttpApi(server.config(token=None, exec_plugin=plugin.config()))
            assert (await api.get(Pod, "p", namespace="d")).metadata.name == "p"
            await api.close()
            assert [asked.header("authorization") for asked in server.asked] == ["Bearer one", "Bearer two"]

    run(main)


def test_a_server_that_goes_on_refusing_is_not_asked_for_ever(plugin: Plugin) -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.status(401, reason="Unauthorized", message="Unauthorized")

    async def main() -> None:
        async with serve(handler) as server:
            api = HttpApi(server.config(token=None, exec_plugin=plugin.config()))
            with pytest.raises(UnauthorizedError, match="check the credentials in the test's kubeconfig"):
                await api.get(Pod, "p", namespace="d")
            await api.close()
            assert len(server.asked) == 2

    run(main)


def test_a_certificate_from_the_plugin_is_shown_to_the_server(plugin: Plugin) -> None:
    pair = client_pair()
    plugin.answers({"clientCertificateData": pair.certificate, "clientKeyData": pair.key})

    async def handler(_asked: Asked, reply: Reply) -> None:
        names = reply.writer.get_extra_info("peercert")["subject"]
        await reply.send({"metadata": {"name": dict(part[0] for part in names)["commonName"]}})

    async def main() -> None:
        async with serve(handler, client_ca=authority().pem) as server:
            tls = TlsSettings(ca_data=authority().pem)
            config = ClientConfig(
                server=f"https://127.0.0.1:{server.port}", tls=tls, exec_plugin=plugin.config()
            )
            api = HttpApi(config)
            assert (await api.get(Pod, "p", namespace="d")).metadata.name == "kuberth"
            await api.close()

    run(main)


def test_a_broken_certificate_from_the_plugin(plugin: Plugin) -> None:
    plugin.answers({"clientCertificateData": "s3cret", "clientKeyData": "s3cret"})

    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.send({})

    async def main() -> None:
        async with serve(handler) as server:
            api = HttpApi(server.config(token=None, exec_plugin=plugin.config()))
            with pytest.raises(UnauthorizedError, match="exec plugin's client certificate") as caught:
                await api.get(Pod, "p", namespace="d")
            await api.close()
            assert "s3cret" not in str(caught.value)

    run(main)
