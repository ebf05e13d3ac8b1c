"""Decodes request bodies.

In: a JSON tree. Out: a new object of its kind, or a 400.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from itertools import islice
from typing import Any, Final

import msgspec

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema import fields
from kuberth.local.apiserver.status_errors import bad_request, invalid, invalid_value
from kuberth.text.field_errors import DuplicateKey

_MOST_REPORTED: Final = 20
_LONGEST_SHOWN: Final = 200
_NOTHING: Final = ServedResource("", "", "", "")
"""Upstream names no kind where it refuses a patch."""


def decode_status(row: ServedResource, body: Any, old: Obj) -> Obj:
    """A body whose status is to be written; what is identical to the stored object was read before.

    Only its metadata (copied, for the server completes them) and its status are used of it.
    """
    same = () if row.custom or type(body) is not dict else ("metadata", "spec")
    own = {name: old[name] for name in same if name in old and body.get(name) is old[name]}
    if "metadata" in own:
        own["metadata"] = dict(own["metadata"])
    rest = {name: value for name, value in body.items() if name not in own} if own else body
    return {**decode(row, rest), **own}


def decode(row: ServedResource, body: Any) -> Obj:
    """A body as a new object of this row; 400 if it is invalid."""
    try:
        obj = fields.read_object(row.schema, body)
    except fields.ShapeError as error:
        message = f'{row.kind} in version "{row.version}" cannot be handled as a {row.kind}: {error}'
        raise bad_request(message) from None
    version, kind = obj.get("apiVersion", row.api_version), obj.get("kind", row.kind)
    if version != row.api_version:
        problem = f'no kind "{kind}" is registered for version "{version}"'
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {row.kind}: {problem}')
    if kind != row.kind:
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {row.kind}: no kind "{kind}"'
        )
    if isinstance(body.get("metadata"), dict) and body["metadata"].get("managedFields") == []:
        obj["metadata"]["managedFields"] = [{}]  # an empty list asks for something: to forget them
    if "spec" in fields.fields_of(row.schema):
        # As upstream, where a spec is no pointer: an object that has none is one that asks for nothing.
        obj.setdefault("spec", {})
    if row.structure is not None:
        row.structure.prune(obj)
    return {"kind": row.kind, "apiVersion": row.api_version, **obj}


@dataclass(slots=True)
class FieldValidation:
    """Handles unknown and duplicate fields of a body as the request asks."""

    mode: str = "Ignore"
    """Strict rejects them, Warn reports them as warnings, Ignore ignores them."""
    duplicates: Sequence[DuplicateKey] = ()
    warnings: list[str] = dataclass_field(default_factory=list)
    """The warnings for the response."""

    def check(self, row: ServedResource, body: Any) -> None:
        """Check the body of a create or update."""
        if self.mode != "Ignore":
            lines, names = self._duplicates()
            found = _problems(row, body, names)
            if problem := self._report(lines, found):
                start = f'{row.kind} in version "{row.version}" cannot be handled as a {row.kind}'
                raise bad_request(f"{start}: strict decoding error: {problem}")

    def check_patched(self, row: ServedResource, patch: Any, patched: Any) -> None:
        if self.mode == "Ignore":
            return
        start = "json patch " if isinstance(patch, list) else ""
        found = [f'{start}duplicate field "{each.path}"' for each in self.duplicates[:_MOST_REPORTED]]
        if isinstance(patch, list):
            found += [
                f'json patch unknown field "[{index}].{name}"'
                for index, each in enumerate(patch)
                if isinstance(each, dict)
                for name in each
                if name not in ("op", "path", "from", "value")
            ]
        found += islice(_problems(row, patched, ()), _MOST_REPORTED)
        if problem := self._report((), found):
            shown = msgspec.json.encode(patch).decode()[:_LONGEST_SHOWN]
            raise invalid(_NOTHING, "", [invalid_value("patch", shown, f"strict decoding error: {problem}")])

    def check_applied(self) -> None:
        """Check the duplicate fields of an apply patch; unknown ones are always refused."""
        if self.mode != "Ignore":
            lines, names = self._duplicates()
            if problem := self._report(lines, [f'duplicate field "{name}"' for name in sorted(names)]):
                why = f"error converting YAML to JSON: {problem}"
                raise bad_request(f"error strict decoding YAML: {why}")

    def _duplicates(self) -> tuple[list[str], set[str]]:
        """Duplicate keys: those of a YAML body by their lines, those of JSON by their paths."""
        lines = [
            f'line {each.value}: key "{each.path.rpartition(".")[2]}" already set in map'
            for each in self.duplicates[:_MOST_REPORTED]
            if each.value is not None
        ]
        return lines, {each.path for each in self.duplicates if each.value is None}

    def _report(self, lines: Sequence[str], found: Iterable[str]) -> str:
        """Why a body is rejected in Strict mode; otherwise "" and the problems become warnings."""
        found = list(islice(found, _MOST_REPORTED))
        if self.mode != "Strict":
            self.warnings += [*lines, *found][:_MOST_REPORTED]
            return ""
        yaml = ["\n  ".join(("yaml: unmarshal errors:", *lines))] if lines else []
        return ", ".join([*yaml, *found])


def _problems(row: ServedResource, tree: Any, duplicates: Container[str]) -> Iterator[str]:
    """The problems of a tree, by the fields of its kind or by the schema that its definition gives."""
    if row.structure is None:
        yield from _strict_problems(row.schema, tree, duplicates)
    elif isinstance(tree, dict):
        yield from _strict_problems("", tree, duplicates)
        try:
            unknown = list(row.structure.prune(fields.copy_tree(tree)))
        except fields.ShapeError:
            return  # decoding reports it
        yield from (f'unknown field "{path}"' for path in unknown)


def _strict_problems(type_name: str, tree: Any, duplicates: Container[str], path: str = "") -> Iterator[str]:
    """Unknown and duplicate fields in the order of the body; parts with the wrong shape are skipped."""
    if isinstance(tree, list):
        inner = type_name[2:] if type_name.startswith("[]") else ""
        for index, item in enumerate(tree):
            yield from _strict_problems(inner, item, duplicates, f"{path}[{index}]")
    if not isinstance(tree, dict):
        return
    known = fields.fields_of(type_name)
    for key, value in tree.items():
        where = f"{path}.{key}" if path else key
        if where in duplicates:
            yield f'duplicate field "{where}"'
        if known and key not in known:
            yield f'unknown field "{where}"'
            continue
        inner = known[key].type if known else type_name[2:] if type_name.startswith("{}") else ""
        if inner or duplicates:
            yield from _strict_problems(inner, value, duplicates, where)
