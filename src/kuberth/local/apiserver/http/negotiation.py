"""Media types: what a client accepts and what it sends.

In: Accept and Content-Type headers, bodies. Out: responses in an accepted format, JSON trees, or a 400, 406
or 415. Protobuf is read but never written: clients that prefer it also accept JSON.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from kuberth.https.messages import JSON, Response
from kuberth.local.apiserver.objects import is_larger
from kuberth.local.apiserver.patching.patching import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
)
from kuberth.local.apiserver.schema.protobuf import MEDIA_TYPE as PROTOBUF
from kuberth.local.apiserver.schema.protobuf import decode_object
from kuberth.local.apiserver.status_errors import StatusError, bad_request, too_large, unsupported_media_type
from kuberth.text.documents import read_tree, write_yaml
from kuberth.text.field_errors import DuplicateKey, InvalidConfiguration, TooLarge

YAML: Final = "application/yaml"
BODY_TYPES: Final = (JSON, YAML, PROTOBUF)
_ANSWER_TYPES: Final = (JSON, YAML)
PATCH_TYPES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)
OBJECT_FORMS: Final = {
    (kind, "meta.k8s.io", version)
    for kind in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    for version in ("v1", "v1beta1")
}
"""Tables and bare metadata, of objects and lists: kind, group and version."""
DISCOVERY_FORMS: Final = {("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2")}
"""Aggregated discovery: all of it in one document."""
_MAX_DEPTH: Final = 200
_MAX_VALUES: Final = 100_000
"""The maximum number of values in a body, each of which is read several times. Real objects have a few
thousand."""
_MAX_YAML_VALUES: Final = 50_000
"""The maximum number of values in a YAML body: parsing takes microseconds per value and blocks the event
loop."""


class Form(NamedTuple):
    """The format of a response: JSON or YAML, and the kind to convert the object to ("": none)."""

    media_type: str = JSON
    kind: str = ""
    version: str = ""


def parse_media_type(text: str) -> tuple[str, dict[str, str]]:
    """A media type and its parameters."""
    name, *rest = text.split(";")
    pairs = (part.partition("=") for part in rest)
    parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs if key.strip()}
    return name.strip().lower(), parameters


def negotiate(header: str | None, *, forms: Collection[tuple[str, str, str]] = ()) -> Form:
    """The best type of the header that is supported, in a plain form or one of `forms`.

    As upstream, the order decides among equals; a missing header accepts everything.
    """
    if not header or not header.strip():
        return Form()
    accepted = [parse_media_type(part) for part in header.split(",")[:32] if part.strip()]
    for name, parameters in sorted(accepted, key=lambda each: _quality(each[1]), reverse=True):
        media_type = {"*/*": JSON, "application/*": JSON}.get(name, name)
        if media_type not in _ANSWER_TYPES or _quality(parameters) <= 0:
            continue
        kind, version = parameters.get("as", ""), parameters.get("v", "")
        if "as" not in parameters:
            return Form(media_type)
        if (kind, parameters.get("g", ""), version) in forms:
            return Form(media_type, kind, version)
    raise not_acceptable(_ANSWER_TYPES)


def _quality(parameters: Mapping[str, str]) -> float:
    try:
        return float(parameters.get("q", 1))
    except ValueError:
        return 0.0


def not_acceptable(supported: tuple[str, ...]) -> StatusError:
    message = "only the following media types are accepted: " + ", ".join(supported)
    return StatusError(406, "NotAcceptable", message)


def encode(tree: Any, media_type: str = JSON, *, pretty: bool = False) -> bytes:
    if media_type == YAML:
        return write_yaml(tree).encode()
    data = msgspec.json.encode(tree)
    return msgspec.json.format(data, indent=2) + b"\n" if pretty else data


def tree_answer(tree: Any, *, status: int = 200, media_type: str = JSON, pretty: bool = False) -> Response:
    return Response(encode(tree, media_type, pretty=pretty), status=status, content_type=media_type)


def failure_answer(error: StatusError) -> Response:
    response = tree_answer(error.to_object(), status=error.code)
    if error.retry_after_seconds is not None:
        response.headers["retry-after"] = str(error.retry_after_seconds)
    if error.code == 401:
        response.headers["www-authenticate"] = 'Bearer realm="kuberth"'
    return response


class Body(NamedTuple):
    """The decoded body of a request."""

    tree: Any
    duplicates: tuple[DuplicateKey, ...] = ()
    """Keys that occur more than once; the last one counts."""


def decode_body(body: bytes, content_type: str | None, *, supported: tuple[str, ...] = BODY_TYPES) -> Any:
    return read_body(body, content_type, supported=supported).tree


def read_body(body: bytes, content_type: str | None, *, supported: tuple[str, ...] = BODY_TYPES) -> Body:
    """A JSON tree of bounded depth; 415 for an unsupported media type, 400 for an invalid body."""
    media_type, _ = parse_media_type(content_type or JSON)
    if media_type not in supported:
        raise unsupported_media_type(supported)
    if media_type == PROTOBUF:
        return Body(decode_object(body))
    # kubectl sends JSON as apply-patch+yaml; only other bodies need the YAML parser.
    if not media_type.endswith("yaml") or body.lstrip()[:1] in (b"{", b"["):
        read = _decode_json(body, may_be_yaml=media_type.endswith("yaml"))
    else:
        read = _decode_yaml(body)
    tree = read.tree
    # Counting brackets is fast, and few bodies have many.
    if body.count(b"{") + body.count(b"[") > _MAX_DEPTH and _is_deeper(tree, _MAX_DEPTH):
        raise bad_request("the body of the request is nested too deeply")
    if body.count(b",") >= _MAX_VALUES and is_larger(tree, _MAX_VALUES):
        why = f"the body of the request holds more than {_MAX_VALUES} values"
        raise too_large(why)
    return read


def _decode_json(body: bytes, *, may_be_yaml: bool) -> Body:
    try:
        tree = msgspec.json.decode(body)
        return Body(tree, _duplicates(body) if _has_duplicates(body) else ())
    except RecursionError:
        raise bad_request("the body of the request is nested too deeply") from None
    except (msgspec.DecodeError, ValueError) as error:
        if may_be_yaml:
            return _decode_yaml(body)
        raise bad_request(f"the object provided is unrecognized: {error}") from None


def _has_duplicates(body: bytes) -> bool:
    found = False

    def compare_keys(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or (len(pairs) > 1 and len({key for key, _ in pairs}) < len(pairs))

    json.loads(body, object_pairs_hook=compare_keys)
    return found


def _duplicates(body: bytes) -> tuple[DuplicateKey, ...]:
    try:
        _, problems = read_tree(body, max_values=_MAX_VALUES)
    except InvalidConfiguration:
        return ()  # too deep or too large: reading the tree reports it
    return tuple(each for each in problems if isinstance(each, DuplicateKey))


def _decode_yaml(body: bytes) -> Body:
    try:
        tree, problems = read_tree(body, max_values=_MAX_YAML_VALUES)
    except TooLarge as error:
        why = f"the YAML body is too large, send JSON: {error}"
        raise too_large(why) from None
    except InvalidConfiguration as error:
        raise bad_request(f"the body of the request is not YAML: {error}") from None
    duplicates = tuple(each for each in problems if isinstance(each, DuplicateKey))
    if len(duplicates) < len(problems):
        first = next(each for each in problems if not isinstance(each, DuplicateKey))
        raise bad_request(f"error decoding YAML: {first.path}: {first.message}")
    return Body(tree, duplicates)


def _is_deeper(tree: Any, limit: int) -> bool:
    level = [tree]
    for _ in range(limit):
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True
