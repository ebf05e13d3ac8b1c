"""Credentials from a command, as in cloud providers' kubeconfigs (client.authentication.k8s.io).

In: an `ExecPlugin`. Out: a `Credential`, kept until it expires or the server rejects it. The command's
messages go to standard error; its output is never logged.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import shutil
import sys
from typing import Final

import msgspec

from kuberth.client.identity.client_config import ExecPlugin, Secret
from kuberth.client.identity.credentials import Credential, bearer
from kuberth.clock import NANOSECONDS, Clock
from kuberth.errors import ConfigError, UnauthorizedError
from kuberth.text.figures import printable

EXEC_TIMEOUT_SECONDS: Final = 60.0
"""Long enough for a plugin that prompts its user."""
_MAX_ANSWER_BYTES: Final = 1024 * 1024


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime.datetime | None = None


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class ExecCredentials:
    """Runs the plugin when there is no credential, when it has expired, and after a 401."""

    def __init__(self, plugin: ExecPlugin, clock: Clock, *, source: str) -> None:
        self._plugin = plugin
        self._clock = clock
        self._source = source
        self._credential: Credential | None = None
        self._expires_ns: int | None = None
        # One run serves all requests, because the plugin may prompt its user.
        self._lock = asyncio.Lock()

    def current_nowait(self) -> Credential | None:
        if self._expires_ns is not None and self._clock.now_ns() >= self._expires_ns:
            return None
        return self._credential

    async def current(self) -> Credential:
        async with self._lock:
            known = self.current_nowait()
            if known is None:
                known = await self._run()
            return known

    def refused(self, credential: Credential) -> bool:
        if self._credential is credential:
            self._credential = None
        return True

    async def _run(self) -> Credential:
        plugin = self._plugin
        interactive = self._interactive()
        path = shutil.which(plugin.command)
        if path is None:
            hint = printable(plugin.install_hint, instead=" ").strip() or "install it"
            raise self._error(f"is not there or cannot be run; {hint}")
        raw = await self._output(path, interactive=interactive)
        try:
            answer = msgspec.json.decode(raw, type=_Answer)
        except msgspec.MsgspecError:
            # The cause would contain a part of the answer.
            raise self._error("did not answer with an ExecCredential in JSON") from None
        status = answer.status
        if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
            raise self._error(f"did not answer with an ExecCredential of {plugin.api_version}")
        if status is None or not (status.token or status.client_certificate_data or status.client_key_data):
            raise self._error("answered neither with a token nor with a certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._error("answered with only one of certificate and key")
        try:
            authorization = bearer(status.token, "its answer") if status.token else None
        except ConfigError as error:
            raise self._error(f"answered with a token that cannot be used: {error}") from error
        self._credential = Credential(
            authorization,
            status.client_certificate_data,
            Secret(status.client_key_data) if status.client_key_data else None,
        )
        self._expires_ns = _nanoseconds(status.expiration_timestamp)
        return self._credential

    async def _output(self, path: str, *, interactive: bool) -> bytes:
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential"}
        spec: dict[str, object] = {"interactive": interactive}
        if self._plugin.cluster_info is not None:
            spec["cluster"] = self._plugin.cluster_info
        exec_info = msgspec.json.encode({**info, "spec": spec}).decode()
        environment = {**os.environ, **self._plugin.env, "KUBERNETES_EXEC_INFO": exec_info}
        try:
            process = await asyncio.create_subprocess_exec(
                path,
                *self._plugin.args,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                env=environment,
                limit=_MAX_ANSWER_BYTES,
            )
        except OSError as error:
            raise self._error(f"cannot be run: {error.strerror}; check the command") from error
        try:
            async with asyncio.timeout(EXEC_TIMEOUT_SECONDS):
                raw, _ = await process.communicate()
        except TimeoutError as error:
            problem = f"did not answer within {EXEC_TIMEOUT_SECONDS:.0f} s; run it by hand"
            raise self._error(problem) from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            problem = f"failed with exit code {process.returncode}; its own message is on standard error"
            raise self._error(f"{problem}, run it by hand or log in again")
        return raw

    def _interactive(self) -> bool:
        mode = self._plugin.interactive_mode
        if mode == "Never":
            return False
        terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        if mode == "Always" and not terminal:
            raise self._error("needs a terminal (interactiveMode: Always), and there is none")
        return terminal

    def _error(self, problem: str) -> UnauthorizedError:
        return UnauthorizedError(f"exec plugin {self._plugin.command!r} ({self._source}) {problem}")


def _nanoseconds(moment: datetime.datetime | None) -> int | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp()) * NANOSECONDS
