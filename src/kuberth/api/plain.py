"""Objects of kinds without a struct: their metadata and the whole JSON tree.

In: a tree. Out: a read-only mapping of it with `.metadata` like every other object, so that stores,
reflectors and clients need not know the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, Self

import msgspec

from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import TreeHolder, convert, to_builtins
from kuberth.errors import WireError

_METADATA_FIELDS: Final = frozenset(field.encode_name for field in msgspec.structs.fields(ObjectMeta))


class PlainObject(TreeHolder, Mapping[str, Any]):
    """An object as a plain tree: `obj["spec"]["size"]`, `obj.get("status", {})`, `obj.metadata.name`.

    `kuberth.api.register_kind` makes a subclass for each kind. Do not change the trees inside: others
    read the same object.
    """

    __slots__ = ("metadata", "tree")

    api_version: ClassVar[str] = ""
    """`group/version` of the kind."""
    kind: ClassVar[str] = ""
    """The kind's name."""

    def __init__(self, tree: Mapping[str, Any] | None = None) -> None:
        tree = {} if tree is None else tree
        if not isinstance(tree, Mapping):
            raise ValueError(f"Expected `object`, got `{type(tree).__name__}`")  # as msgspec reads it
        own = {"apiVersion": self.api_version, "kind": self.kind}
        self.tree: Mapping[str, Any] = {**tree, **own}
        """The whole JSON tree, unchanged."""
        metadata = tree.get("metadata")
        try:
            self.metadata = convert(ObjectMeta, {} if metadata is None else metadata)
            """Name, namespace, labels and so on, as for every other object."""
        except WireError as error:
            raise WireError(f"{self.kind or type(self).__name__}: metadata: {error}") from error

    def with_metadata(self, metadata: ObjectMeta) -> Self:
        """A copy with other metadata; fields that `ObjectMeta` does not know stay."""
        present = self.tree.get("metadata") or {}
        unknown = {name: value for name, value in present.items() if name not in _METADATA_FIELDS}
        return type(self)({**self.tree, "metadata": {**unknown, **to_builtins(metadata)}})

    def __getitem__(self, name: str) -> Any:
        """A part of the tree: `obj["spec"]`."""
        return self.tree[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tree)

    def __len__(self) -> int:
        return len(self.tree)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.tree!r})"
