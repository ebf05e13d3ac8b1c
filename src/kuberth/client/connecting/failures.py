"""Error messages for failed connections: one line with the cause and the fix.

In: errors of asyncio, the resolver or OpenSSL. Out: an `UnreachableError` or an `AnswerLostError`.
"""

from __future__ import annotations

import errno
import re
import socket
import ssl
from typing import Final

from kuberth.client.connecting.connection import AnswerTooLargeError
from kuberth.client.identity.client_config import ClientConfig
from kuberth.errors import AnswerLostError, ApiError, UnreachableError

_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
# OpenSSL's X509_V_ERR_*
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_NAME_MISMATCHES: Final = (62, 64)


def connect_failure(error: BaseException, config: ClientConfig) -> UnreachableError:
    """The error for a connection that could not be opened."""
    return UnreachableError(f"{_subject(config)} {_problem(error, config)}")


def is_tls_refusal(error: BaseException) -> bool:
    """Whether the server aborted the handshake; with TLS 1.3 the client notices only afterwards."""
    return isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")


def describe(error: BaseException) -> str:
    """A short text for an error; some of asyncio's have none."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def exchange_failure(
    error: BaseException, config: ClientConfig, *, what: str, repeatable: bool, first: bool
) -> ApiError:
    """The error for a request without a response; `first`: the connection never received anything."""
    if isinstance(error, AnswerTooLargeError):
        problem = f"{error}; ask for less, or allow more"
    elif is_tls_refusal(error):
        # The server did not read the request.
        return UnreachableError(f"{what}: {connect_failure(error, config)}")
    elif isinstance(error, TimeoutError):
        problem = f"{config.server} did not answer before the deadline"
    else:
        problem = f"the connection to {config.server} was lost ({describe(error)})"
        if first and config.address.secure:
            problem += "; does the server want a client certificate?"
    if repeatable:
        return UnreachableError(f"{what}: {problem}; try again")
    return AnswerLostError(f"{what}: {problem}; it may have taken effect; read the object to find out")


def _subject(config: ClientConfig) -> str:
    via = f" (by way of proxy {config.proxy})" if config.proxy is not None else ""
    return f"the {config.peer} at {config.server}{via}"


def _problem(error: BaseException, config: ClientConfig) -> str:
    source = config.source
    if isinstance(error, ssl.SSLCertVerificationError):
        return _certificate_problem(error, config)
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        if reason in _NOT_TLS:
            return f"does not speak TLS; check scheme and port of the server in {source}"
        if is_tls_refusal(error):
            return (
                f"refused our client certificate ({_plain(reason)}); "
                f"check that the one in {source} is there, valid and signed by the cluster's CA"
            )
        return f"failed the TLS handshake ({_plain(reason) or 'no reason given'}); see {source}"
    if isinstance(error, socket.gaierror):
        return f"cannot be found: {error.strerror}; check the server's name in {source} and the DNS"
    if isinstance(error, TimeoutError):
        return f"did not answer in time; check the network and the server in {source}"
    if isinstance(error, OSError):
        return _system_problem(error, config)
    return f"cannot be reached: {error}; see {source}"


def _certificate_problem(error: ssl.SSLCertVerificationError, config: ClientConfig) -> str:
    source, code = config.source, error.verify_code
    if code == _EXPIRED:
        return "has a certificate that has expired; renew it, and check this machine's clock"
    if code == _NOT_YET_VALID:
        return "has a certificate that is not valid yet; check this machine's clock"
    if code in _NAME_MISMATCHES:
        name = config.tls.server_name or config.address.host
        return (
            f"has a certificate that is not for {name!r}; use a name it is for, "
            f"or set tls-server-name in {source}"
        )
    return (
        f"has a certificate that our CA did not sign ({error.verify_message}); "
        f"check the certificate authority in {source}"
    )


def _system_problem(error: OSError, config: ClientConfig) -> str:
    source = config.source
    # For several addresses asyncio joins the errors into one text.
    numbers = {int(each) for each in _ERRNO.findall(str(error))} | {error.errno or 0}
    if errno.ECONNREFUSED in numbers:
        return f"refused the connection; is it running, and is the server in {source} right?"
    if numbers & {errno.ENETUNREACH, errno.EHOSTUNREACH}:
        return f"is not reachable from here; check the network and the server in {source}"
    if isinstance(error, ConnectionError):
        problem = f"closed the connection before anything was asked ({describe(error)})"
        return f"{problem}; is it the {config.peer}, and does it want a client certificate?"
    return f"cannot be reached: {describe(error)}; see {source}"


def _plain(reason: str) -> str:
    return reason.replace("_", " ").lower()
