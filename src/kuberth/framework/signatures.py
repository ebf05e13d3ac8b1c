"""Signatures: which pods are equal for all plugins.

In: the fields of a pod that plugins state. Out: bytes that are equal for pods that agree in them all; few
bytes, however large the pod is.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

import msgspec

from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.inputs import Signer, values_of

_LONG: Final = 512
"""Encodings of this many bytes or more are replaced by a digest."""

_encode: Final = msgspec.msgpack.Encoder().encode


def signer(fields: Iterable[str], *, presence: Iterable[str] = (), plugin: str = "") -> Signer:
    """How pods are signed by these fields, which a plugin states. ConfigError for one that is not there.

    Of the fields in `presence` only whether they are empty counts.
    """
    values, present = values_of(plugin, fields), values_of(plugin, presence)

    def sign(info: PodInfo) -> bytes | None:
        if info.digests is not None and (known := info.digests.get(sign)) is not None:
            return known
        try:
            encoded = _encode((values(info), list(map(bool, present(info)))))
        except (OverflowError, TypeError):  # a number beyond 64 bits, which no API server lets through
            return None
        if len(encoded) < _LONG:
            return encoded
        if info.digests is None:
            info.digests = {}
        digest = info.digests[sign] = sha256(encoded).digest()
        return digest

    return sign
