"""Manifests on disk: YAML or JSON, several documents a file, a file or a folder of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kuberth.errors import ConfigError
from kuberth.local.apiserver.objects import Obj
from kuberth.text.documents import read_documents
from kuberth.text.field_errors import InvalidConfiguration

_ENDINGS = (".yaml", ".yml", ".json")


def read_manifests(path: Path) -> Iterator[Obj]:
    """Every object in the file, or in the files of the folder in the order of their names."""
    files = sorted(each for each in path.rglob("*") if each.suffix in _ENDINGS) if path.is_dir() else [path]
    for file in files:
        try:
            documents, errors = read_documents(file.read_bytes())
        except (OSError, InvalidConfiguration) as exc:
            raise ConfigError(f"{file} cannot be read as YAML or JSON: {exc}") from exc
        if errors:
            raise ConfigError(f"{file}: {errors[0]}")
        for document in documents:
            yield from _objects(document.tree, file)


def _objects(document: object, file: Path) -> Iterator[Obj]:
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ConfigError(
            f"{file}: expected Kubernetes objects with apiVersion and kind, got {document!r:.100}"
        )
    if document["kind"] == "List":
        for item in document.get("items") or ():
            yield from _objects(item, file)
    else:
        yield document
