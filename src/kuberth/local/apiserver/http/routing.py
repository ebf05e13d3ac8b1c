"""Maps paths to resources: which row, namespace, name and subresource a request refers to.

In: a path and a method. Out: a `Target` and the verb on it, or a 404 or 405.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote

from kuberth.local.apiserver.resources import ResourceTable, ServedResource
from kuberth.local.apiserver.status_errors import method_not_supported, unknown_resource

_NAMESPACE_SUBRESOURCES: Final = ("status", "finalize")


class Subresource(NamedTuple):
    """The verbs and type of a subresource; `api_version` and `kind` "" are those of its parent."""

    verbs: tuple[str, ...] = ("get", "patch", "update")
    api_version: str = ""
    kind: str = ""


SUBRESOURCES: Final = {
    "status": Subresource(),
    "approval": Subresource(),
    "resize": Subresource(),
    "scale": Subresource(api_version="autoscaling/v1", kind="Scale"),
    "binding": Subresource(("create",), "v1", "Binding"),
    "eviction": Subresource(("create",), "policy/v1", "Eviction"),
    "finalize": Subresource(("update",)),
    "log": Subresource(("get",)),
    "exec": Subresource(("create", "get"), "v1", "PodExecOptions"),
    "attach": Subresource(("create", "get"), "v1", "PodAttachOptions"),
    "portforward": Subresource(("create", "get"), "v1", "PodPortForwardOptions"),
    "proxy": Subresource(("create", "delete", "get", "patch", "update"), "v1", "PodProxyOptions"),
    "ephemeralcontainers": Subresource(),
    "token": Subresource(("create",), "authentication.k8s.io/v1", "TokenRequest"),
}


class Target(NamedTuple):
    """The resource, and the object in it, that a path names; with `name` "" it is the collection."""

    row: ServedResource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def split_path(raw_path: str) -> list[str]:
    """The segments of a path, decoded; a slash that was encoded cannot be part of any name."""
    segments = [unquote(segment) for segment in raw_path.strip("/").split("/")]
    if any("/" in segment or not segment for segment in segments):
        raise unknown_resource()
    return segments


def find_target(resources: ResourceTable, segments: Sequence[str]) -> Target:
    """The segments are those of a path below /api or /apis with a group version and more."""
    if segments[0] == "api":
        group, version, rest = "", segments[1], segments[2:]
    else:
        if len(segments) < 4:
            raise unknown_resource()
        group, version, rest = segments[1], segments[2], segments[3:]
    namespace = ""
    # /namespaces/{name}/status is a namespace's own subresource.
    is_subresource = group == "" and len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES
    if rest[0] == "namespaces" and len(rest) > 2 and not is_subresource:
        namespace, rest = rest[1], rest[2:]
    row = resources.find(group, version, rest[0])
    if row is None or len(rest) > 3:
        raise unknown_resource()
    target = Target(row, namespace, *rest[1:])
    if namespace and not row.namespaced:
        raise unknown_resource()
    if row.namespaced and target.name and not namespace:
        raise unknown_resource()
    if target.subresource and target.subresource not in row.subresources:
        raise unknown_resource()
    return target


def subresource_of(name: str) -> Subresource:
    return SUBRESOURCES.get(name, SUBRESOURCES["status"])


_NAMED: Final = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION: Final = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}


def verb_of(target: Target, method: str) -> str:
    """The verb of a method on a target; StatusError 405 if its resource or subresource does not have it."""
    row = target.row
    verbs = subresource_of(target.subresource).verbs if target.subresource else row.verbs
    if target.subresource:
        verb = "create" if method == "POST" else _NAMED.get(method, "")
    elif target.name:
        verb = _NAMED.get(method, "")
    else:
        verb = _COLLECTION.get(method, "")
        # As upstream: only reads can span all namespaces.
        if row.namespaced and not target.namespace and verb != "list":
            verb = ""
    if verb not in verbs:
        raise method_not_supported(row, verb or method)
    return verb
