"""Reads YAML and JSON as plain trees, and writes YAML.

In: YAML or JSON text. Out: trees of dict, list, str, int, float, bool and None, with an error and its path
for every duplicate key and every value that JSON does not have. Scalars have the same meaning as in
Kubernetes (see `scalars`).

Trees are built from the parser's events, so that a document that is too deep or too large is rejected before
it takes memory. Parts that are repeated by an alias are the same object, so trees must not be changed.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from kuberth.errors import ConfigError
from kuberth.text.field_errors import (
    DuplicateKey,
    FieldError,
    InvalidConfiguration,
    TooLarge,
    child,
    item,
    show,
)
from kuberth.text.scalars import plain_scalar, tagged_scalar

# Far more than any real document has. The limits stop hostile input, such as aliases of aliases, thousands of
# nested brackets, or a million short lines.
MAX_DEPTH: Final = 100
MAX_VALUES: Final = 200_000

_MERGE: Final = "<<"
_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
_STRING_TAG: Final = "tag:yaml.org,2002:str"
_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Parser: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with its duplicate keys."""


class Document(NamedTuple):
    """A document in a text: its tree, and its first line."""

    tree: Any
    line: int = 1


def read_tree(text: str | bytes, *, max_values: int = MAX_VALUES) -> tuple[Any, list[FieldError]]:
    """The only non-empty document in `text`; None if there is none. Raises if the text is not YAML."""
    documents, errors = read_documents(text, max_values=max_values)
    if len(documents) > 1:
        found = f"found {len(documents)}; remove from line {documents[1].line} on"
        errors.append(FieldError("", f"expected one YAML document, {found}"))
    return (documents[0].tree if documents else None), errors


def read_file(path: Path, what: str) -> Any:
    """The tree of a YAML file; ConfigError if it cannot be read or is not valid. `what` is for messages."""
    try:
        tree, errors = read_tree(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read {what}: {path}: {error.strerror or error}") from error
    except InvalidConfiguration as error:
        raise ConfigError(f"{path}: this is no YAML: {error}") from error
    if errors:
        raise ConfigError(f"{path}: " + "; ".join(map(str, errors)))
    return tree


def read_text(path: Path) -> str:
    """The text of a UTF-8 file; ConfigError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: the file is not UTF-8 text (byte {error.start})") from error


def file_stamp(path: str | Path) -> tuple[int, int, int] | None:
    """A value that changes when the file is rewritten or replaced; None if there is no such file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_documents(
    text: str | bytes, *, max_values: int = MAX_VALUES
) -> tuple[list[Document], list[FieldError]]:
    """Every non-empty document in `text`.

    InvalidConfiguration if the text is not YAML, or a document is too deep; TooLarge if a document has more
    than `max_values` values.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidConfiguration(
                [FieldError("", f"the file is not UTF-8 text (byte {error.start}); save it as UTF-8")]
            ) from error
    builder = _TreeBuilder(max_values)
    if text.lstrip()[:1] in ("{", "["):
        # JSON may be indented with tabs, which YAML rejects; flow YAML is not JSON. Try both.
        try:
            raw = json.loads(text, object_pairs_hook=_Pairs, parse_constant=_no_constant)
        except ValueError:
            pass
        except RecursionError as error:
            raise InvalidConfiguration([_too_deep("")]) from error
        else:
            return [Document(builder.from_plain(raw))], builder.errors
    return list(builder.from_yaml(text)), builder.errors


def clean_tree(tree: Any) -> tuple[Any, list[FieldError]]:
    """Check a tree that was built in Python like one that is read from a text."""
    builder = _TreeBuilder(MAX_VALUES)
    return builder.from_plain(tree), builder.errors


def write_yaml(tree: Any, *, sort_keys: bool = False) -> str:
    """YAML that is read as the same tree, here and in Kubernetes."""
    # ASCII only: PyYAML writes some Unicode line breaks in a form that is read as spaces.
    text: str = yaml.dump(tree, Dumper=_Dumper, sort_keys=sort_keys)
    return text


class _Dumper(_SafeDumper):  # type: ignore[misc]  # the base class depends on the machine
    """Quotes strings that would be read as another type, such as `y` and `0o17`."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        tag = super().resolve(kind, value, implicit)
        misread = kind is yaml.ScalarNode and implicit[0] and not isinstance(plain_scalar(value), str)
        return None if misread and tag == _STRING_TAG else tag

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _too_deep(path: str) -> FieldError:
    return FieldError(path, f"nested deeper than {MAX_DEPTH} levels")


class _Anchored(NamedTuple):
    """The tree of an anchor, its number of values and its depth."""

    tree: Any
    values: int = 1
    height: int = 0
    complete: bool = True


_OPEN: Final = _Anchored(None, complete=False)


class _TreeBuilder:
    def __init__(self, max_values: int) -> None:
        self.errors: list[FieldError] = []
        self._max_values = max_values
        self._values = 0
        """The number of values in this document, including those that aliases repeat."""
        self._deepest = 0
        self._path: list[str | int | None] = []
        """Keys and indices from the root to the current value; None while a key is read."""

    # From the events of a YAML parser

    def from_yaml(self, text: str) -> Iterator[Document]:
        parser = None
        try:
            parser = _Parser(text)
            parser.get_event()  # the stream's start
            while isinstance(parser.get_event(), yaml.DocumentStartEvent):
                first = parser.get_event()
                self._values = 0
                tree = self._from_event(parser, first, {})
                parser.get_event()  # the document's end
                if tree is not None or not isinstance(first, yaml.ScalarEvent):
                    yield Document(tree, first.start_mark.line + 1)
        except yaml.YAMLError as error:
            raise InvalidConfiguration([FieldError("", _syntax_error(error))]) from error
        finally:
            if parser is not None:
                parser.dispose()

    def _from_event(self, parser: Any, event: Any, anchors: dict[str, _Anchored]) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._from_alias(event, anchors)
        self._count()
        if isinstance(event, yaml.ScalarEvent):
            tree = self._from_scalar(event)
            if event.anchor is not None:
                anchors[event.anchor] = _Anchored(tree)
            return tree
        read = self._from_sequence if isinstance(event, yaml.SequenceStartEvent) else self._from_mapping
        if event.anchor is None:
            return read(parser, anchors)
        values, deepest, self._deepest = self._values, self._deepest, len(self._path)
        anchors[event.anchor] = _OPEN
        tree = read(parser, anchors)
        height = self._deepest - len(self._path)
        anchors[event.anchor] = _Anchored(tree, self._values - values + 1, height)
        self._deepest = max(deepest, self._deepest)
        return tree

    def _from_alias(self, event: Any, anchors: dict[str, _Anchored]) -> Any:
        anchored = anchors.get(event.anchor)
        if anchored is None:
            raise yaml.composer.ComposerError(
                None, None, f"found undefined alias {show(event.anchor)}", event.start_mark
            )
        if not anchored.complete:
            self._error("an alias that contains itself")
        self._count(anchored.values, height=anchored.height)
        return anchored.tree

    def _from_sequence(self, parser: Any, anchors: dict[str, _Anchored]) -> list[Any]:
        tree: list[Any] = []
        self._path.append(0)
        while not isinstance(event := parser.get_event(), yaml.SequenceEndEvent):
            self._path[-1] = len(tree)
            tree.append(self._from_event(parser, event, anchors))
        self._path.pop()
        return tree

    def _from_mapping(self, parser: Any, anchors: dict[str, _Anchored]) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        lines: dict[str, int] = {}
        self._path.append(None)
        while not isinstance(event := parser.get_event(), yaml.MappingEndEvent):
            self._path[-1] = None
            if _is_merge(event):
                merged = self._merged(self._from_event(parser, parser.get_event(), anchors)) | merged
                continue
            line = event.start_mark.line + 1
            name = self._path[-1] = self._key(self._from_event(parser, event, anchors))
            if name in lines:
                problem = f"given more than once, on lines {lines[name]} and {line}; keep one"
                self.errors.append(DuplicateKey(self._where(), problem, line))
            value = self._from_event(parser, parser.get_event(), anchors)
            if name is not None:
                lines[name] = line
                tree[name] = value
        self._path.pop()
        return merged | tree if merged else tree

    def _merged(self, tree: Any) -> dict[str, Any]:
        """The keys of `<<: *anchor`; if several anchors have a key, the first one counts."""
        merged: dict[str, Any] = {}
        for source in tree if isinstance(tree, list) else [tree]:
            if isinstance(source, dict):
                merged = source | merged
            else:
                self._error(f"`<<` expects a mapping, got {show(source)}")
        return merged

    def _from_scalar(self, event: Any) -> Any:
        plain, quoted = event.implicit
        if plain:
            return self._scalar(plain_scalar(event.value))
        if quoted or event.tag is None or event.tag == "!":
            return self._scalar(event.value)
        try:
            return self._scalar(tagged_scalar(event.tag, event.value))
        except ValueError as error:
            self._error(f"line {event.start_mark.line + 1}: cannot read {show(event.value)}: {error}")
            return None

    # From values

    def from_plain(self, value: Any) -> Any:
        self._count()
        if isinstance(value, _Pairs | Mapping):
            return self._from_pairs(value if isinstance(value, _Pairs) else value.items())
        if isinstance(value, list | tuple):
            tree = []
            self._path.append(0)
            for index, each in enumerate(value):
                self._path[-1] = index
                tree.append(self.from_plain(each))
            self._path.pop()
            return tree
        return self._scalar(value)

    def _from_pairs(self, pairs: Any) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for key, value in pairs:
            name = self._key(key)
            if name is None:
                continue
            self._path.append(name)
            if name in tree:
                self.errors.append(DuplicateKey(self._where(), "given more than once; keep one"))
            tree[name] = self.from_plain(value)
            self._path.pop()
        return tree

    # Both

    def _key(self, key: Any) -> str | None:
        """The field name: a string; numbers and booleans are converted to strings, as in Kubernetes."""
        if isinstance(key, bool | int | float):
            key = json.dumps(key)
        if isinstance(key, str) and _is_text(key):
            return key
        what = "null" if key is None else show(key) if isinstance(key, str) else "a structure"
        self._error(f"expected a field name, got {what}")
        return None

    def _scalar(self, value: Any) -> Any:
        if isinstance(value, str):
            if value.isascii() or _is_text(value):
                return value
            self._error("text with half a surrogate pair, which is no Unicode")
        elif value is None or isinstance(value, bool | int):
            return value
        elif isinstance(value, float):
            if math.isfinite(value):
                return value
            self._error(f"{value} is not a number that JSON knows")
        else:
            self._error(f"a value of type {type(value).__name__} has no place in a configuration")
        return None

    def _count(self, values: int = 1, *, height: int = 0) -> None:
        """Count values; raises at once, since there may be millions more."""
        depth = len(self._path) + height
        self._deepest = max(self._deepest, depth)
        self._values += values
        if depth > MAX_DEPTH:
            raise InvalidConfiguration([_too_deep(self._where())])
        if self._values > self._max_values:
            raise TooLarge(
                [FieldError(self._where(), f"more than {self._max_values} values in one document")]
            )

    def _error(self, message: str) -> None:
        self.errors.append(FieldError(self._where(), message))

    def _where(self) -> str:
        path = ""
        for part in self._path:
            if part is not None:
                path = child(path, part) if isinstance(part, str) else item(path, part)
        return path


def _is_merge(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and (
        event.tag == _MERGE_TAG or (event.value == _MERGE and event.implicit[0])
    )


def _is_text(value: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _syntax_error(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return f"not valid YAML{where}: {problem}"
