"""The resources that the server serves, one row of data each.

In: the built-in rows (`catalogue`), and rows that CustomResourceDefinitions add and remove at run time.
Out: the row for an id, for a path (group, version, plural) or for a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kuberth.local.apiserver.objects import Obj

if TYPE_CHECKING:
    from kuberth.local.apiserver.schema.structural import StructuralSchema

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a Table; `cell` receives the object and the current time in nanoseconds."""

    name: str
    cell: Callable[[Obj, int], Any]
    type: str = "string"
    format: str = ""
    priority: int = 0
    """0 always shown, 1 with `-o wide`."""
    description: str = ""


@dataclass(frozen=True, slots=True)
class ServedResource:
    """A resource in one version. Resources that share `storage` are views of the same objects."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    """The verbs of the resource itself; each subresource has its own."""
    subresources: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    """Field selectors besides metadata.name and metadata.namespace: selector → path in the stored object;
    `path|text` gives a default, `path|@other.path` a fallback path."""
    name_rule: str = "subdomain"
    """The rule for names of its objects: a key of `names.RULES`."""
    schema: str = ""
    """Its type in the schema table; "" for kinds with unknown fields (custom resources)."""
    has_generation: bool = False
    unconditional_update: bool = True
    """Whether an update may omit the resourceVersion."""
    returns_deleted: bool = False
    """Whether a finished deletion returns the object instead of a Status."""
    storage: str = ""
    """The id under which its objects are stored, if it differs."""
    storage_version: str = ""
    """The apiVersion of stored objects, if it differs."""
    orphans_by_default: bool = False
    """Whether a deletion without a propagation policy orphans the dependents."""
    custom: bool = False
    structure: StructuralSchema | None = None
    """The schema of a custom kind; None if it accepts everything."""
    preferred: bool = True
    scale_paths: Mapping[str, str] = field(default_factory=dict)
    """Paths of the replica counts and the selector: specReplicas, statusReplicas, selector → path."""

    @property
    def id(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored_as(self) -> str:
        return self.storage or self.id

    @property
    def list_kind(self) -> str:
        return self.kind + "List"

    @property
    def singular_name(self) -> str:
        return self.singular or self.kind.lower()

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources


class ResourceTable:
    """The resources that are served now."""

    def __init__(self, rows: Iterable[ServedResource]) -> None:
        self._rows: dict[tuple[str, str, str], ServedResource] = {}
        self._by_id: dict[str, ServedResource] = {}
        self._by_kind: dict[tuple[str, str], ServedResource] = {}
        self.changed = 0
        """Counts changes of the table, so that discovery documents can be cached."""
        for row in rows:
            self.add(row)

    def __iter__(self) -> Iterator[ServedResource]:
        return iter(tuple(self._rows.values()))

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: ServedResource) -> None:
        """Serve a row, replacing one with the same group, version and plural."""
        self._rows[row.group, row.version, row.plural] = row
        self._by_kind[row.api_version, row.kind] = row
        if row.preferred or row.id not in self._by_id:
            self._by_id[row.id] = row
        self.changed += 1

    def remove(self, resource_id: str) -> None:
        """Stop serving a resource, in all its versions."""
        gone = [key for key, row in self._rows.items() if row.id == resource_id]
        for key in gone:
            row = self._rows.pop(key)
            self._by_kind.pop((row.api_version, row.kind), None)
        self._by_id.pop(resource_id, None)
        self.changed += 1

    def by_id(self, resource_id: str) -> ServedResource | None:
        """The row in its preferred version."""
        return self._by_id.get(resource_id)

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        return self._rows.get((group, version, plural))

    def by_kind(self, api_version: str, kind: str) -> ServedResource | None:
        return self._by_kind.get((api_version, kind))
