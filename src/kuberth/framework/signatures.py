"""Signatures: which pods are equal for all plugins.

In: the fields of a pod that plugins state. Out: bytes that are equal for pods that agree in all these fields,
and short even for large pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

import msgspec

from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.selected_labels import SelectedLabels
from kuberth.framework.inputs import Signer, values_of

_LONG: Final = 512
"""Encodings of this many bytes or more are replaced by a digest."""

_MAX_DIGESTS: Final = 16
"""The number of digests kept with a pod; older ones are dropped."""


def _as_dict(mapping: object) -> dict[object, object]:
    if isinstance(mapping, Mapping):  # such as the read-only ones of a pod's requests
        return dict(mapping)
    raise TypeError(f"{type(mapping).__name__} cannot be signed")


_encode: Final = msgspec.msgpack.Encoder(enc_hook=_as_dict).encode


def signer(
    fields: Iterable[str],
    *,
    presence: Iterable[str] = (),
    labels: SelectedLabels | None = None,
    plugin: str = "",
) -> Signer:
    """A function that signs pods by these fields, which a plugin states; ConfigError for unknown fields.

    Of the fields in `presence`, only whether they are empty counts. Of the pod's labels, only those that
    `labels` selects count; the caller refreshes `labels`, and when its version grows, all signatures change.
    """
    values, present = values_of(plugin, fields), values_of(plugin, presence)

    def sign(info: PodInfo) -> bytes | None:
        version = 0 if labels is None else labels.version
        if info.digests is not None and (known := info.digests.get(sign)) is not None and known[0] == version:
            return known[1]
        seen = None
        if labels is not None:
            seen = labels.of(info)
            version = labels.version  # the pod's own selectors may be new
        try:
            encoded = _encode((values(info), list(map(bool, present(info))), seen, version))
        except (OverflowError, TypeError):  # an integer beyond 64 bits, which API servers reject
            return None
        if len(encoded) < _LONG:
            return encoded
        if info.digests is None or len(info.digests) >= _MAX_DIGESTS:
            info.digests = {}
        digest = sha256(encoded).digest()
        info.digests[sign] = version, digest
        return digest

    return sign
