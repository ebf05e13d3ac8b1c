"""The base class of all wire types, and the conversion between JSON and them.

In: bytes from the API server, or plain dicts (YAML, patches). Out: frozen structs, and bytes. An object that
does not have the fields of its type raises `WireError`, with the object and the field.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar, dataclass_transform

import msgspec

from kuberth.errors import WireError

T = TypeVar("T")


# For type checkers: they do not know that a struct inherits `frozen` and `kw_only`.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A JSON object of the Kubernetes API. Fields that Kuberth does not read are dropped when it is decoded.

    `gc=False` is safe: a frozen struct contains only older objects, which are scalars, structs, tuples and
    maps of these, so that there are no cycles.
    """


class TreeHolder:
    """A wire type that is not a struct: it contains the whole JSON tree."""

    __slots__ = ()

    tree: Mapping[str, Any]

    def __init__(self, tree: Mapping[str, Any]) -> None:
        raise NotImplementedError


class MicroTime(datetime.datetime):
    """A timestamp that is always written with six fractional digits.

    The API server requires these digits in some fields (leases, events); other timestamps are written without
    a fraction that is zero, so the two need different types.
    """


def always(text: str) -> Any:
    """A string field with a default that is encoded even when it is unchanged (apiVersion, kind)."""
    # omit_defaults applies to plain defaults and empty collections, but not to the result of a factory.
    return msgspec.field(default_factory=partial(str, text))


def decode(type_: type[T], raw: bytes | str) -> T:
    """Decode JSON as `type_`; `null` means the default of a field: Go writes it for nil slices and maps."""
    try:
        found: T = decoder_of(type_).decode(raw)
        return found
    except msgspec.ValidationError:
        # Rare: a null for a type without None. Only then, decode to a plain tree first.
        return convert(type_, msgspec.json.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WireError(f"{_type_name(type_)}: not valid JSON: {error}") from error


def convert(type_: type[T], obj: Any) -> T:
    """Convert a plain tree (parsed YAML or JSON) to `type_`."""
    try:
        return msgspec.convert(obj, type_, dec_hook=_decode_special)
    except msgspec.ValidationError as error:
        # In trees of unknown kinds, nulls may have a meaning.
        if isinstance(type_, type) and issubclass(type_, TreeHolder):
            raise WireError(_explain(type_, obj, str(error))) from error
    # Rare: a null for a type without None. Only then, make a copy without nulls.
    try:
        return msgspec.convert(without_nulls(obj), type_, dec_hook=_decode_special)
    except msgspec.ValidationError as error:
        raise WireError(_explain(type_, obj, str(error))) from error


def encode(obj: Any) -> bytes:
    """Encode a struct or plain tree as JSON, without defaults but with apiVersion and kind."""
    return _ENCODER.encode(obj)


def to_builtins(obj: Any) -> Any:
    """The tree of `encode`: dicts, lists, strings and numbers."""
    # Through JSON: msgspec.to_builtins would keep tuples, which are not equal to JSON lists.
    return msgspec.json.decode(_ENCODER.encode(obj))


def _encode_special(obj: Any) -> Any:
    if isinstance(obj, MicroTime):
        return obj.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(obj, TreeHolder):
        return obj.tree
    raise NotImplementedError(f"{type(obj).__name__} has no JSON form in the Kubernetes API")


def _decode_special(type_: type, value: Any) -> Any:
    if issubclass(type_, TreeHolder):
        return type_(value)
    if type_ is not MicroTime:
        raise NotImplementedError(f"{type_.__name__} is not a wire type")
    if isinstance(value, datetime.datetime):  # YAML loaders convert timestamps themselves
        moment = value
    else:
        try:
            moment = msgspec.convert(value, datetime.datetime)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error  # msgspec adds the field's path to a ValueError
    return MicroTime.fromisoformat(moment.isoformat())


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_special)


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder_of(type_: Any) -> msgspec.json.Decoder[Any]:
    """The decoder that `decode` uses first; it rejects a null for a type without None."""
    decoder = _DECODERS.get(type_)
    if decoder is None:
        decoder = _DECODERS[type_] = msgspec.json.Decoder(type_, dec_hook=_decode_special)
    return decoder


def without_nulls(tree: Any) -> Any:
    """The tree without fields that are null."""
    if isinstance(tree, dict):
        return {key: without_nulls(value) for key, value in tree.items() if value is not None}
    if isinstance(tree, (list, tuple)):
        return [without_nulls(value) for value in tree]
    return tree


def _type_name(type_: Any) -> str:
    return str(getattr(type_, "__name__", None) or type_)


def _explain(type_: Any, obj: Any, problem: str) -> str:
    what, _, path = problem.partition(" - at `$")
    subject = _type_name(type_)
    if isinstance(obj, dict):
        if isinstance(obj.get("kind"), str) and obj["kind"]:
            subject = obj["kind"]
        metadata = obj.get("metadata")
        if isinstance(metadata, dict) and isinstance(metadata.get("name"), str):
            namespace = metadata.get("namespace")
            where = f"{namespace}/" if isinstance(namespace, str) and namespace else ""
            subject = f"{subject} {where}{metadata['name']}"
    field = path.rstrip("`").lstrip(".")
    return f"{subject}: field {field}: {what}" if field else f"{subject}: {what}"
