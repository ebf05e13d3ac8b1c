"""Paths of objects in the API, and their names in messages.

In: a kind, names, a subresource. Out: paths, query strings, texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from kuberth.api.kinds import KindInfo
from kuberth.errors import ApiError


def path_of(info: KindInfo, name: str = "", namespace: str = "", subresource: str = "") -> str:
    path = info.path
    if namespace and info.namespaced:
        path += f"/namespaces/{escaped(namespace)}"
    path += f"/{info.plural}"
    if name:
        path += f"/{escaped(name)}"
    return f"{path}/{subresource}" if subresource else path


def escaped(name: str) -> str:
    # Nearly all names are DNS names. "." and ".." have a meaning in paths.
    if name.replace("-", "").isalnum() and name.isascii():
        return name
    if name in (".", ".."):
        raise ApiError(f"{name!r} is not a valid name of an object", code=400, reason="BadRequest")
    return quote(name, safe="")


def query(fields: Mapping[str, str]) -> str:
    given = {key: value for key, value in fields.items() if value}
    return f"?{urlencode(given)}" if given else ""


def object_name(info: KindInfo, name: str, namespace: str, subresource: str = "") -> str:
    key = f"{namespace}/{name}" if namespace else name
    return f"{subresource} of {info.kind} {key}" if subresource else f"{info.kind} {key}"
