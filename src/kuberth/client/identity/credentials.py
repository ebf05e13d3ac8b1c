"""Credentials of requests: tokens, token files that change, passwords.

In: a `ClientConfig`. Out: the Authorization header of the next request, and the client certificate of an exec
plugin (see `exec_credentials`).
"""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass
from typing import Final, Protocol

from kuberth.client.identity.client_config import ClientConfig, Secret
from kuberth.clock import NANOSECONDS, Clock
from kuberth.errors import ConfigError
from kuberth.text.documents import file_stamp

logger = logging.getLogger(__name__)

TOKEN_CHECK_NS: Final = NANOSECONDS
"""How often a token file is checked for changes."""
TOKEN_REREAD_NS: Final = 60 * NANOSECONDS
"""Nanoseconds after which the token file is read again even if it seems unchanged."""
_MAX_TOKEN_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class Credential:
    """The credentials of one request, compared by identity."""

    authorization: Secret | None = None
    certificate: str = ""
    key: Secret | None = None


ANONYMOUS: Final = Credential()


class Credentials(Protocol):
    """A source of credentials, which may have to be fetched."""

    def current_nowait(self) -> Credential | None:
        """The credential to use now; None if it must be fetched."""
        ...

    async def current(self) -> Credential:
        """The credential to use now, fetched if necessary."""
        ...

    def refused(self, credential: Credential) -> bool:
        """Handle a 401 response; True if retrying with `current` may help."""
        ...


class FixedCredentials:
    """Presents a credential that never changes."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    def current_nowait(self) -> Credential:
        return self._credential

    async def current(self) -> Credential:
        return self._credential

    def refused(self, credential: Credential) -> bool:
        return False


class TokenFile:
    """A bearer token in a file that another program renews, as kubelet does for service accounts."""

    def __init__(self, path: str, clock: Clock, *, fallback: Secret | None = None, source: str) -> None:
        self._path = path
        self._clock = clock
        self._source = source
        self._last = None if fallback is None else Credential(bearer(fallback.reveal(), source))
        self._stamp: object = None
        self._check_at = self._reread_at = 0
        self._credential = self._checked(clock.now_ns())

    def current_nowait(self) -> Credential:
        now = self._clock.now_ns()
        if now >= self._check_at:
            self._credential = self._checked(now)
        return self._credential

    async def current(self) -> Credential:
        return self.current_nowait()

    def refused(self, credential: Credential) -> bool:
        """Read the file at once: it may have been rotated within the last second."""
        self._credential = self._checked(self._clock.now_ns(), forced=True)
        return self._credential is not credential

    def _checked(self, now: int, *, forced: bool = False) -> Credential:
        self._check_at = now + TOKEN_CHECK_NS
        stamp = file_stamp(self._path)
        try:
            if self._last is None or forced or stamp != self._stamp or now >= self._reread_at:
                self._last = self._read()
                self._stamp = stamp
                self._reread_at = now + TOKEN_REREAD_NS
        except (OSError, ConfigError) as error:
            problem = getattr(error, "strerror", None) or str(error)
            if self._last is None:
                message = f"{self._source}: token file {self._path} cannot be used: {problem}; check the path"
                raise ConfigError(message) from error
            logger.warning("token file %s is not usable; keeping the previous token: %s", self._path, problem)
        return self._last

    def _read(self) -> Credential:
        with open(self._path, "rb") as file:
            text = file.read(_MAX_TOKEN_BYTES).decode("ascii", errors="replace")
        authorization = bearer(text, f"token file {self._path}")
        if self._last is not None and self._last.authorization == authorization:
            return self._last
        return Credential(authorization)


def bearer(token: str, where: str) -> Secret:
    """The Authorization header for a token; raises ConfigError if it cannot be a header."""
    token = token.strip()
    if not token:
        raise ConfigError(f"{where}: the token is empty")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"{where}: the token contains characters that are not allowed in a header; is the file damaged?"
        )
    return Secret(f"Bearer {token}")


def basic(username: str, password: Secret | None) -> Secret:
    pair = f"{username}:{password.reveal() if password else ''}"
    return Secret(f"Basic {base64.b64encode(pair.encode()).decode()}")


def fixed_or_file(config: ClientConfig, clock: Clock) -> Credentials:
    """The credentials of a configuration without an exec plugin. A token file overrides a token."""
    if config.token_file:
        return TokenFile(config.token_file, clock, fallback=config.token, source=config.source)
    if config.token is not None:
        return FixedCredentials(Credential(bearer(config.token.reveal(), config.source)))
    if config.username or config.password:
        return FixedCredentials(Credential(basic(config.username, config.password)))
    return FixedCredentials(ANONYMOUS)
