"""Signatures: which pods no plugin can tell apart.

In: the fields of a pod that plugins say they read. Out: bytes that are equal for pods that agree in them all;
few bytes, however large a pod somebody makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import Final

import msgspec

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import ConfigError
from kuberth.framework.extension_points import Plugin

Signer = Callable[[PodInfo], bytes | None]
"""None: the pod holds something that cannot be signed, or a plugin says that it is like no other."""

_LONG: Final = 512
"""From so many bytes on a digest stands for them."""

_DERIVED: Final = "info."
_ANY_POD: Final = PodInfo(Pod())
_encode: Final = msgspec.msgpack.Encoder().encode


def signer(plugins: Iterable[Plugin]) -> Signer | None:
    """How pods are signed for these plugins; None if none of them says what it reads."""
    plugins = tuple(plugins)
    fields = read_fields(plugins)
    telling = [plugin.tells_apart for plugin in plugins if type(plugin).tells_apart is not Plugin.tells_apart]
    return _signer_of(fields, telling) if fields else None


def field_signer(plugin: str, fields: Iterable[str]) -> Signer:
    """How pods are signed by these fields, which a plugin names. ConfigError for one that is not there."""
    return _signer_of(sorted(_path(plugin, field) for field in fields))


def _signer_of(paths: Sequence[str], telling: Sequence[Callable[[PodInfo], bool]] = ()) -> Signer:
    values_of = attrgetter(*paths)

    def sign(info: PodInfo) -> bytes | None:
        for tells_apart in telling:
            if tells_apart(info):
                return None
        try:
            encoded = _encode(values_of(info))
        except OverflowError:  # a number beyond 64 bits, which no API server lets through
            return None
        return encoded if len(encoded) < _LONG else sha256(encoded).digest()

    return sign


def read_fields(plugins: Iterable[Plugin]) -> Sequence[str]:
    """Attributes of a PodInfo that plugins say they read. Raises ConfigError for one that is not there."""
    fields: set[str] = set()
    for plugin in plugins:
        for field in plugin.reads or ():
            fields.add(_path(plugin.name, field))
    return sorted(fields)


def _path(plugin: str, field: str) -> str:
    path = field.removeprefix(_DERIVED) if field.startswith(_DERIVED) else f"pod.{field}"
    try:
        attrgetter(path)(_ANY_POD)
    except AttributeError:
        raise ConfigError(
            f"plugin {plugin!r} says it reads {field!r}, which pods do not have; "
            "name an attribute of Pod, such as 'spec.tolerations', or of PodInfo: 'info.priority'"
        ) from None
    return path
