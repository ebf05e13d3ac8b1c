"""Text → plain tree: the first step of reading a configuration.

In: YAML or JSON text. Out: a tree of dict, list, str, int, float, bool and None, with an error for every
duplicate key and every value JSON does not know, each at its path. Nothing here knows what the fields mean.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from kuberth.text.field_errors import FieldError, InvalidConfiguration, child, item, show

# Far beyond any real configuration; they keep hostile input (aliases of aliases, towers of brackets)
# from taking the process down.
_MAX_DEPTH = 100
_MAX_VALUES = 200_000

_MERGE_TAG = "tag:yaml.org,2002:merge"
_TIMESTAMP_TAG = "tag:yaml.org,2002:timestamp"

_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):  # type: ignore[misc]  # which base it is depends on the machine
    """The safe loader without dates: `2024-01-01` is a string, as it is for Kubernetes."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP_TAG]
    for first, resolvers in _SafeLoader.yaml_implicit_resolvers.items()
}


class _Pairs(list[tuple[str, Any]]):
    """A JSON object before its duplicate keys are gone."""


def read_tree(text: str | bytes) -> tuple[Any, list[FieldError]]:
    """The one non-empty document in `text`, None when there is none. Text that is no YAML at all raises."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidConfiguration(
                [FieldError("", f"the file is not UTF-8 text (byte {error.start}); save it as UTF-8")]
            ) from error
    builder = _TreeBuilder()
    try:
        if text.lstrip()[:1] in ("{", "["):
            # Real JSON may be indented with tabs, which YAML refuses; flow YAML is no JSON. Try both.
            try:
                raw = json.loads(text, object_pairs_hook=_Pairs, parse_constant=_no_constant)
            except ValueError:
                return builder.from_yaml(text), builder.errors
            return builder.from_plain(raw), builder.errors
        return builder.from_yaml(text), builder.errors
    except RecursionError as error:
        raise InvalidConfiguration([_too_deep("")]) from error


def clean_tree(tree: Any) -> tuple[Any, list[FieldError]]:
    """The same checks for a tree that was built in Python."""
    builder = _TreeBuilder()
    return builder.from_plain(tree), builder.errors


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _too_deep(path: str) -> FieldError:
    return FieldError(path, f"nested deeper than {_MAX_DEPTH} levels")


class _TreeBuilder:
    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self._values = 0

    def from_yaml(self, text: str) -> Any:
        loader = _Loader(text)
        try:
            documents = [node for node in self._documents(loader) if not self._is_empty(node)]
            if len(documents) > 1:
                line = documents[1].start_mark.line + 1
                self._error(
                    "", f"expected one YAML document, found {len(documents)}; remove from line {line} on"
                )
            return self._from_node(loader, documents[0], "", ()) if documents else None
        except yaml.YAMLError as error:
            raise InvalidConfiguration([FieldError("", _syntax_error(error))]) from error
        finally:
            loader.dispose()

    def from_plain(self, value: Any, path: str = "", depth: int = 0) -> Any:
        if not self._may_enter(path, depth):
            return None
        if isinstance(value, _Pairs):
            return self._from_pairs(value, path, depth)
        if isinstance(value, Mapping):
            return {
                key: self.from_plain(each, child(path, key), depth + 1)
                for raw_key, each in value.items()
                if (key := self._key(raw_key, path)) is not None
            }
        if isinstance(value, list | tuple):
            return [self.from_plain(each, item(path, i), depth + 1) for i, each in enumerate(value)]
        return self._scalar(value, path)

    def _from_pairs(self, pairs: _Pairs, path: str, depth: int) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for raw_key, value in pairs:
            key = self._key(raw_key, path)
            if key is None:
                continue
            if key in tree:
                self._error(child(path, key), "given more than once; keep one")
            tree[key] = self.from_plain(value, child(path, key), depth + 1)
        return tree

    def _documents(self, loader: Any) -> Iterator[yaml.Node]:
        while loader.check_node():
            yield loader.get_node()

    def _is_empty(self, node: yaml.Node) -> bool:
        return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"

    def _from_node(self, loader: Any, node: yaml.Node, path: str, above: tuple[yaml.Node, ...]) -> Any:
        if not self._may_enter(path, len(above)):
            return None
        if any(node is one for one in above):
            self._error(path, "an alias that contains itself")
            return None
        above = (*above, node)
        if isinstance(node, yaml.MappingNode):
            return self._from_mapping(loader, node, path, above)
        if isinstance(node, yaml.SequenceNode):
            return [self._from_node(loader, each, item(path, i), above) for i, each in enumerate(node.value)]
        return self._scalar(self._construct(loader, node, path), path)

    def _from_mapping(
        self, loader: Any, node: yaml.MappingNode, path: str, above: tuple[yaml.Node, ...]
    ) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == _MERGE_TAG:
                merged = self._merge(loader, value_node, path, above) | merged
                continue
            key = self._key(self._construct(loader, key_node, path), path)
            if key is None:
                continue
            if key in lines:
                where = f"on lines {lines[key]} and {line}"
                self._error(child(path, key), f"given more than once, {where}; keep one")
            lines[key] = line
            tree[key] = self._from_node(loader, value_node, child(path, key), above)
        return merged | tree

    def _merge(self, loader: Any, node: yaml.Node, path: str, above: tuple[yaml.Node, ...]) -> dict[str, Any]:
        """What `<<: *anchor` brings in; of several anchors the first to name a key wins."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for source in sources:
            tree = self._from_node(loader, source, path, above)
            if isinstance(tree, dict):
                merged = tree | merged
            else:
                self._error(path, f"`<<` expects a mapping, got {show(tree)}")
        return merged

    def _construct(self, loader: Any, node: yaml.Node, path: str) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            return node
        try:
            return loader.construct_object(node)
        # KeyError and IndexError: PyYAML's own constructors on `!!bool x` and `!!int ""`.
        except (yaml.YAMLError, ValueError, KeyError, IndexError) as error:
            line = node.start_mark.line + 1
            self._error(path, f"line {line}: cannot read {show(node.value)} as {show(node.tag)}: {error}")
            return None

    def _key(self, key: Any, path: str) -> str | None:
        """Field names are strings; numbers and booleans are spelled out, as Kubernetes does."""
        if isinstance(key, bool | int | float | None):
            key = json.dumps(key)
        if isinstance(key, str) and _is_text(key):
            return key
        self._error(
            path, f"expected a field name, got {show(key) if isinstance(key, str) else 'a structure'}"
        )
        return None

    def _scalar(self, value: Any, path: str) -> Any:
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            if math.isfinite(value):
                return value
            self._error(path, f"{value} is not a number that JSON knows")
            return None
        if isinstance(value, str):
            if _is_text(value):
                return value
            self._error(path, "text with half a surrogate pair, which is no Unicode")
            return None
        self._error(path, f"a value of type {type(value).__name__} has no place in a configuration")
        return None

    def _may_enter(self, path: str, depth: int) -> bool:
        self._values += 1
        if depth > _MAX_DEPTH:
            self.errors.append(_too_deep(path))
            return False
        if self._values > _MAX_VALUES:
            # Raised, not collected: going on would collect millions more.
            raise InvalidConfiguration([FieldError(path, f"more than {_MAX_VALUES} values in one file")])
        return True

    def _error(self, path: str, message: str) -> None:
        self.errors.append(FieldError(path, message))


def _is_text(value: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _syntax_error(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return f"not valid YAML{where}: {problem}"
