"""Manifests on disk: YAML or JSON, several documents a file, a file or a folder of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kuberth.errors import ConfigError
from kuberth.local.apiserver.objects import Obj
from kuberth.text.documents import MAX_VALUES, read_documents
from kuberth.text.field_errors import InvalidConfiguration

_ENDINGS: Final = (".yaml", ".yml", ".json")


class Manifest(NamedTuple):
    """An object of a manifest, and the place where it was read, for error messages."""

    tree: Obj
    origin: str = ""

    def __str__(self) -> str:
        metadata = self.tree.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        what = f"{self.tree.get('kind')} {name or 'without a name'}"
        return f"{self.origin}: {what}" if self.origin else what


def read_manifests(path: Path) -> Iterator[Manifest]:
    """Every object in the file, or in the files of the folder in the order of their names."""
    files = sorted(each for each in path.rglob("*") if each.suffix in _ENDINGS) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"{path}: there are no manifests in this folder ({', '.join(_ENDINGS)})")
    for file in files:
        try:
            text = file.read_bytes()
            # The dump of a large cluster is one document. Only aliases make more values than bytes.
            documents, errors = read_documents(text, max_values=max(MAX_VALUES, len(text)))
        except OSError as exc:
            raise ConfigError(f"{file}: {exc.strerror or exc}") from exc
        except InvalidConfiguration as exc:
            raise ConfigError(f"{file} cannot be read as YAML or JSON: {exc}") from exc
        if errors:
            raise ConfigError(f"{file}: {errors[0]}")
        for document in documents:
            # The first line of a file says nothing that its name does not.
            yield from _objects(document.tree, f"{file}:{document.line}" if document.line > 1 else str(file))


def _objects(document: object, origin: str) -> Iterator[Manifest]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ConfigError(
            f"{origin}: expected Kubernetes objects with apiVersion and kind, got {document!r:.100}"
        )
    if document["kind"] == "List":
        items = document.get("items")
        if items is None:
            items = []
        if not isinstance(items, list):
            raise ConfigError(f"{origin}: the items of a List are a list, got {items!r:.100}")
        for number, item in enumerate(items, 1):
            yield from _objects(item, f"{origin}: item {number}")
    else:
        yield Manifest(document, origin)
