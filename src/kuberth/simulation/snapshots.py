"""A snapshot of a real cluster: the objects that its scheduler reads, without secrets.

In: an API with read access. Out: a gzipped JSON file that `clusters` reads. Only the fields that the
scheduler reads are kept, so there are no environment variables, secrets or config maps; annotations and
managed fields are omitted.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from pathlib import Path
from typing import Any, Final

import msgspec

from kuberth.api.core import Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from kuberth.api.pods import UNFINISHED
from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.scheduling import PodGroup, PriorityClass
from kuberth.api.storage import CSIDriver, CSINode, StorageClass
from kuberth.api.wire import to_builtins
from kuberth.client.protocol import Api
from kuberth.errors import ApiError, ConfigError

VERSION: Final = "kuberth.dev/snapshot/v1"
ENDINGS: Final = (".json.gz",)
_KINDS: Final[tuple[type[Any], ...]] = (
    Namespace,
    PriorityClass,
    Node,
    StorageClass,
    CSINode,
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    PodGroup,
    Pod,
)
_REQUIRED_KINDS: Final = (Node, Pod)
_METADATA_FIELDS: Final = ("name", "namespace", "uid", "labels", "creationTimestamp", "ownerReferences")


async def take_snapshot(api: Api) -> bytes:
    """Read everything at once; unavailable kinds are omitted, except nodes and pods."""
    items: list[dict[str, Any]] = []
    for kind in _KINDS:
        try:
            listed = await api.list(kind, field_selector=UNFINISHED if kind is Pod else "")
        except ApiError as error:
            if kind in _REQUIRED_KINDS or error.code not in (403, 404):
                raise
            continue
        items += (_strip(to_builtins(obj), kind) for obj in listed.items)
    body = msgspec.json.encode({"version": VERSION, "items": items})
    return gzip.compress(body, mtime=0)


def _strip(tree: dict[str, Any], kind: type[Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in tree.get("metadata", {}).items() if name in _METADATA_FIELDS}
    info = kind()
    return {**tree, "apiVersion": info.api_version, "kind": info.kind, "metadata": metadata}


def is_snapshot(path: Path) -> bool:
    return path.name.endswith(ENDINGS)


def read_snapshot(path: Path) -> list[dict[str, Any]]:
    """The objects of a snapshot; ConfigError for an invalid one, or one of another version."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    try:
        tree = json.loads(gzip.decompress(content))
    except (gzip.BadGzipFile, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: this is not a snapshot, or not all of one: {error}") from error
    version = tree.get("version") if isinstance(tree, dict) else None
    if version != VERSION:
        raise ConfigError(
            f"{path}: this snapshot is of version {version!r}, and {VERSION!r} is what this Kuberth reads; "
            "take it again with `kuberth simulate snapshot`"
        )
    items = tree.get("items")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ConfigError(f"{path}: a snapshot has a list of items")
    return items


def write_atomically(path: Path, content: bytes) -> None:
    """Write the whole file, or nothing."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ConfigError(f"{path}: {error.strerror or error}") from error
