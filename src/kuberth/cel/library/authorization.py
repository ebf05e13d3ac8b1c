"""Authorization checks: declared so that expressions with them compile; without an authorizer none runs."""

from __future__ import annotations

from typing import NoReturn

from kuberth.cel.declarations import Overload, method
from kuberth.cel.values import Value, no_such_overload


def _never(*_args: Value) -> NoReturn:
    raise no_such_overload()


LIBRARY: tuple[Overload, ...] = (
    method("Authorizer.path(string) -> PathCheck", _never),
    method("Authorizer.group(string) -> GroupCheck", _never),
    method("Authorizer.serviceAccount(string, string) -> Authorizer", _never),
    method("GroupCheck.resource(string) -> ResourceCheck", _never),
    method("ResourceCheck.subresource(string) -> ResourceCheck", _never),
    method("ResourceCheck.namespace(string) -> ResourceCheck", _never),
    method("ResourceCheck.name(string) -> ResourceCheck", _never),
    method("PathCheck.check(string) -> Decision", _never),
    method("ResourceCheck.check(string) -> Decision", _never),
    method("Decision.errored() -> bool", _never),
    method("Decision.error() -> string", _never),
    method("Decision.allowed() -> bool", _never),
    method("Decision.reason() -> string", _never),
    method("ResourceCheck.fieldSelector(string) -> ResourceCheck", _never),
    method("ResourceCheck.labelSelector(string) -> ResourceCheck", _never),
)
