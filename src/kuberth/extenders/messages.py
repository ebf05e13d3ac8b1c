"""Requests and answers of extenders: k8s.io/kube-scheduler/extender/v1 as JSON.

In: pods and nodes as JSON, names, victims. Out: the body of a request, and the checked fields of an answer
that the scheduler uses. Field names are those of Go structs without tags and are matched as Go matches them:
case does not matter, null is the zero value, unknown fields are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from kuberth.api.wire import decoder_of
from kuberth.config.types import Int64
from kuberth.errors import WireError

T = TypeVar("T")

_EXCERPT: Final = 60
"""Characters that the message quotes of an answer that is not JSON."""
_MAX_TEXT: Final = 1024
"""Characters of a reason or an error that are kept for the pod's status and events."""


class NodesLeft(NamedTuple):
    """The answer to filter."""

    names: Sequence[str] | None
    """Names of the accepted nodes; None if the answer has no names."""
    node_names: Sequence[str] | None
    """Names of the accepted nodes, from an answer with whole nodes; None if it has none."""
    failed: Mapping[str, str]
    """Rejected nodes and the reasons."""
    unresolvable: Mapping[str, str]
    """Rejected nodes where preemption does not help, and the reasons."""
    error: str


class ProposedVictims(NamedTuple):
    """The victims of a preemption on a node."""

    uids: Sequence[str]
    budget_violations: int


# Requests


def nodes_request(pod: bytes, *, nodes: Sequence[bytes] | None, names: Sequence[str] | None) -> bytes:
    """ExtenderArgs, for filter and prioritize; either whole nodes or their names."""
    listed = None if nodes is None else {"metadata": {}, "items": [msgspec.Raw(node) for node in nodes]}
    return msgspec.json.encode({"Pod": msgspec.Raw(pod), "Nodes": listed, "NodeNames": names})


def preemption_request(
    pod: bytes, victims: Mapping[str, ProposedVictims], *, whole: Mapping[str, bytes] | None
) -> bytes:
    """ExtenderPreemptionArgs; with `whole` (by UID) the victims themselves are sent, else their UIDs."""

    def entry(proposed: ProposedVictims) -> dict[str, Any]:
        pods: list[Any] = (
            [{"UID": uid} for uid in proposed.uids]
            if whole is None
            else [msgspec.Raw(whole[uid]) for uid in proposed.uids]
        )
        return {"Pods": pods, "NumPDBViolations": proposed.budget_violations}

    entries = {name: entry(victims[name]) for name in sorted(victims)}
    return msgspec.json.encode(
        {
            "Pod": msgspec.Raw(pod),
            "NodeNameToVictims": None if whole is None else entries,
            "NodeNameToMetaVictims": entries if whole is None else None,
        }
    )


def binding_request(*, name: str, namespace: str, uid: str, node_name: str) -> bytes:
    """ExtenderBindingArgs."""
    return msgspec.json.encode({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node_name})


# Answers


class _Named(msgspec.Struct):
    name: str = ""


class _NodeItem(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)


class _NodeList(msgspec.Struct):
    items: list[_NodeItem] | None = None


class _HostPriority(msgspec.Struct):
    host: str | None = None
    score: Int64 | None = None


class _MetaPod(msgspec.Struct):
    uid: str | None = None


class _MetaVictims(msgspec.Struct):
    pods: list[_MetaPod] | None = None
    numpdbviolations: Int64 | None = None


class _PreemptionResult(msgspec.Struct):
    nodenametometavictims: dict[str, _MetaVictims | None] | None = None


_Names = list[str] | None
_Reasons = dict[str, str | None] | None


def read_filter(body: bytes) -> NodesLeft:
    parts = _parts(body)
    nodes: _NodeList | None = _part(parts, "Nodes", _NodeList | None)
    return NodesLeft(
        _part(parts, "NodeNames", _Names),
        None if nodes is None else [item.metadata.name for item in nodes.items or ()],
        failed=_texts(_part(parts, "FailedNodes", _Reasons)),
        unresolvable=_texts(_part(parts, "FailedAndUnresolvableNodes", _Reasons)),
        error=_bounded(_part(parts, "Error", str | None)),
    )


def read_scores(body: bytes) -> Sequence[tuple[str, int]]:
    """Host and score, in the answer's order; a host may be repeated or unknown."""
    tree = _tree(body)
    if not isinstance(tree, list | None):
        raise WireError(f"Expected `array`, got `{_kind_of(tree)}`")
    priorities = _read(list[_HostPriority], [_lowered(entry) for entry in tree or ()])
    return [(each.host or "", each.score or 0) for each in priorities]


def read_victims(body: bytes) -> Mapping[str, ProposedVictims | None]:
    """The proposed victims by node; None where the answer has null."""
    tree = _lowered(_tree(body))
    by_node = tree.get("nodenametometavictims")
    if isinstance(by_node, dict):
        tree["nodenametometavictims"] = {name: _lowered_victims(entry) for name, entry in by_node.items()}
    result = _read(_PreemptionResult, tree)
    return {
        name: None
        if entry is None
        else ProposedVictims([pod.uid or "" for pod in entry.pods or ()], entry.numpdbviolations or 0)
        for name, entry in (result.nodenametometavictims or {}).items()
    }


def read_binding(body: bytes) -> str:
    """The error message; "" for success."""
    return _bounded(_part(_parts(body), "Error", str | None))


_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)


def _parts(body: bytes) -> Mapping[str, msgspec.Raw]:
    """The fields of an object, undecoded: nodes that are sent back are large, and only their names matter."""
    found: Mapping[str, msgspec.Raw] = _decoded(_PARTS.decode, body) or {}
    return {name.lower(): part for name, part in found.items()}


def _part(parts: Mapping[str, msgspec.Raw], name: str, type_: Any) -> Any:
    """A field of the answer, decoded; None if it is missing."""
    raw = parts.get(name.lower())
    if raw is None:
        return None
    try:
        return decoder_of(type_).decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"{name}: {error}") from None


def _tree(body: bytes) -> Any:
    return _decoded(msgspec.json.decode, body)


def _decoded(decode: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        raise WireError(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        begin = body[: 4 * _EXCERPT].decode(errors="replace")[:_EXCERPT]
        what = f"it begins with {begin!r}" if body else "it is empty"
        raise WireError(f"not valid JSON: {what}") from None


def _read(type_: type[T], tree: Any) -> T:
    try:
        return msgspec.convert(tree, type_)
    except msgspec.ValidationError as error:
        raise WireError(str(error)) from None


def _lowered(tree: Any) -> dict[str, Any]:
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise WireError(f"Expected `object`, got `{_kind_of(tree)}`")
    return {name.lower(): value for name, value in tree.items()}


def _lowered_victims(tree: Any) -> dict[str, Any] | None:
    if tree is None:
        return None
    lowered = _lowered(tree)
    if isinstance(lowered.get("pods"), list):
        lowered["pods"] = [_lowered(pod) for pod in lowered["pods"]]
    return lowered


def _texts(found: Mapping[str, str | None] | None) -> Mapping[str, str]:
    return {name: _bounded(text) for name, text in (found or {}).items()}


def _bounded(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


_KINDS: Final = {list: "array", str: "str", int: "int", float: "float", bool: "bool", dict: "object"}


def _kind_of(tree: Any) -> str:
    return _KINDS.get(type(tree), "null")
