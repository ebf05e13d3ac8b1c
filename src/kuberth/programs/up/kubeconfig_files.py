"""Writes kubeconfig files: merged into an existing file, or temporary for one process.

In: the kubeconfig's tree and a path, or none. Out: a file that only its owner can read. An in-memory cluster
has a file for the lifetime of its process; the file of a killed process is removed by the next.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kuberth.errors import ConfigError
from kuberth.https.certificates import write_privately
from kuberth.local.apiserver.objects import Obj
from kuberth.text.documents import read_tree, write_yaml
from kuberth.text.field_errors import InvalidConfiguration

_LISTS: Final = ("clusters", "users", "contexts")
_ENDING: Final = ".kubeconfig"


def merge_into(path: Path, tree: Obj) -> None:
    """Set the entries of `tree` and make its context the current one; other entries stay."""
    # A link stays a link: users may keep their configuration elsewhere.
    target = path.resolve()
    merged = _merge(_read(target), tree)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_privately(target, write_yaml(merged).encode())


def _read(path: Path) -> Obj:
    try:
        tree, errors = read_tree(path.read_bytes())
    except FileNotFoundError:
        return {}
    except InvalidConfiguration as error:
        raise _not_a_kubeconfig(path, str(error.errors[0])) from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    if errors:
        raise _not_a_kubeconfig(path, str(errors[0]))
    if tree is None:
        return {}
    if not isinstance(tree, dict) or tree.get("kind", "Config") != "Config":
        raise _not_a_kubeconfig(path, "expected apiVersion v1, kind Config")
    if not tree.keys() & {"kind", "current-context", *_LISTS}:
        raise _not_a_kubeconfig(path, "it has none of a kubeconfig's fields")
    for name in _LISTS:
        entries = tree.get(name) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise _not_a_kubeconfig(path, f"{name} is not a list of entries with names")
    return tree


def _not_a_kubeconfig(path: Path, problem: str) -> ConfigError:
    return ConfigError(
        f"{path} is not a kubeconfig and was not changed: {problem}; give another file with --kubeconfig-out"
    )


def _merge(old: Obj, ours: Obj) -> Obj:
    merged: Obj = {"apiVersion": "v1", "kind": "Config", **old, "current-context": ours["current-context"]}
    for name in _LISTS:
        new = {entry["name"]: entry for entry in ours[name]}
        kept: list[Any] = []
        for entry in old.get(name) or []:
            if entry.get("name") not in new:
                kept.append(entry)
            elif name == "contexts":
                context = new[entry["name"]]
                # Keep a namespace that the user has set.
                context["context"] = {**(entry.get("context") or {}), **context["context"]}
        merged[name] = kept + list(new.values())
    return merged


@contextmanager
def temporary_kubeconfig(tree: Obj, *, folder: Path | None = None) -> Iterator[Path]:
    """A kubeconfig for the lifetime of the process; files of dead processes are removed."""
    folder = _private_folder() if folder is None else folder
    with _exclusive_access(folder):
        _remove_stale(folder)
        path = folder / f"memory-{secrets.token_hex(4)}{_ENDING}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        # The lock marks a file in use: the system releases it with the
        # process, whatever ended it.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    with os.fdopen(descriptor, "wb") as file:
        file.write(write_yaml(tree).encode())
        file.flush()
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def _private_folder() -> Path:
    """The user's own folder for data of a session, else a private one among temporary files."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime, "kuberth") if runtime else Path(tempfile.gettempdir(), f"kuberth-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be created: {error.strerror}; give a file with --kubeconfig-out"
        ) from error
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or folder.is_symlink():
        raise ConfigError(
            f"{folder} is accessible to other users; remove it, or give a file with --kubeconfig-out"
        )
    return folder


@contextmanager
def _exclusive_access(folder: Path) -> Iterator[None]:
    """While the block lasts, no other process removes or creates a file here."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _remove_stale(folder: Path) -> None:
    for path in folder.glob(f"*{_ENDING}"):
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            pass  # its process lives
        finally:
            os.close(descriptor)
