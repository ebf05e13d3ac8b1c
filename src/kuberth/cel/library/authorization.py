"""Authorization checks: declared so that expressions with them compile; without an authorizer none runs."""

from __future__ import annotations

from typing import NoReturn

from kuberth.cel.declarations import Overload, method
from kuberth.cel.values import Value, no_such_overload


def _unavailable(*_args: Value) -> NoReturn:
    raise no_such_overload()


LIBRARY: tuple[Overload, ...] = (
    method("Authorizer.path(string) -> PathCheck", _unavailable),
    method("Authorizer.group(string) -> GroupCheck", _unavailable),
    method("Authorizer.serviceAccount(string, string) -> Authorizer", _unavailable),
    method("GroupCheck.resource(string) -> ResourceCheck", _unavailable),
    method("ResourceCheck.subresource(string) -> ResourceCheck", _unavailable),
    method("ResourceCheck.namespace(string) -> ResourceCheck", _unavailable),
    method("ResourceCheck.name(string) -> ResourceCheck", _unavailable),
    method("PathCheck.check(string) -> Decision", _unavailable),
    method("ResourceCheck.check(string) -> Decision", _unavailable),
    method("Decision.errored() -> bool", _unavailable),
    method("Decision.error() -> string", _unavailable),
    method("Decision.allowed() -> bool", _unavailable),
    method("Decision.reason() -> string", _unavailable),
    method("ResourceCheck.fieldSelector(string) -> ResourceCheck", _unavailable),
    method("ResourceCheck.labelSelector(string) -> ResourceCheck", _unavailable),
)
