"""Authorization checks: declared so that expressions with them compile; without an authorizer none runs."""

from __future__ import annotations

from typing import NoReturn

from kuberth.cel.declarations import Overload, method
from kuberth.cel.values import Value, no_such_overload


def _never(*_args: Value) -> NoReturn:
    raise no_such_overload()


LIBRARY: tuple[Overload, ...] = tuple(
    method(name, identity, signature, _never)
    for name, identity, signature in (
        ("path", "authorizer_path", "Authorizer, string -> PathCheck"),
        ("group", "authorizer_group", "Authorizer, string -> GroupCheck"),
        ("serviceAccount", "authorizer_serviceaccount", "Authorizer, string, string -> Authorizer"),
        ("resource", "groupcheck_resource", "GroupCheck, string -> ResourceCheck"),
        ("subresource", "resourcecheck_subresource", "ResourceCheck, string -> ResourceCheck"),
        ("namespace", "resourcecheck_namespace", "ResourceCheck, string -> ResourceCheck"),
        ("name", "resourcecheck_name", "ResourceCheck, string -> ResourceCheck"),
        ("check", "pathcheck_check", "PathCheck, string -> Decision"),
        ("check", "resourcecheck_check", "ResourceCheck, string -> Decision"),
        ("errored", "decision_errored", "Decision -> bool"),
        ("error", "decision_error", "Decision -> string"),
        ("allowed", "decision_allowed", "Decision -> bool"),
        ("reason", "decision_reason", "Decision -> string"),
        ("fieldSelector", "authorizer_fieldselector", "ResourceCheck, string -> ResourceCheck"),
        ("labelSelector", "authorizer_labelselector", "ResourceCheck, string -> ResourceCheck"),
    )
)
