"""Edits an object in Kubernetes' protobuf encoding without changing any other byte.

In: an object as the API server encodes it. Out: the same object with one more finalizer. JSON cannot do that:
opaque parameters of drivers are stored byte by byte, and re-encoding them as JSON may change them, which the
API server rejects for immutable fields.
"""

from __future__ import annotations

from typing import Final

from kuberth.errors import WireError

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\x00"
_RAW: Final = 2
"""The field of the envelope that holds the object."""
_METADATA: Final = 1
"""The field of every object that holds its metadata."""
_FINALIZERS: Final = 14
_LENGTH_DELIMITED: Final = 2


def with_finalizer(encoded: bytes, finalizer: str) -> bytes:
    """The object with the finalizer appended; raises WireError if it is not an object."""
    if not encoded.startswith(_MAGIC):
        raise WireError("not an object in Kubernetes' protobuf encoding")
    # Protobuf merges a message that occurs twice, and appends repeated fields.
    metadata = _field(_METADATA, _field(_FINALIZERS, finalizer.encode()))
    envelope, found, place = b"", False, len(_MAGIC)
    while place < len(encoded):
        start = place
        tag, place = _varint(encoded, place)
        if tag & 7 != _LENGTH_DELIMITED:
            raise WireError("an envelope of Kubernetes' protobuf encoding holds no numbers")
        length, place = _varint(encoded, place)
        content = encoded[place : place + length]
        place += length
        if tag >> 3 == _RAW:
            found = True
            envelope += _field(_RAW, content + metadata)
        else:
            envelope += encoded[start:place]
    if not found or place > len(encoded):
        raise WireError("an envelope of Kubernetes' protobuf encoding without its object")
    return _MAGIC + envelope


def _field(number: int, content: bytes) -> bytes:
    return _as_varint(number << 3 | _LENGTH_DELIMITED) + _as_varint(len(content)) + content


def _as_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _varint(encoded: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while place < len(encoded) and shift < 64:
        byte = encoded[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
        shift += 7
    raise WireError("a number of Kubernetes' protobuf encoding that does not end")
