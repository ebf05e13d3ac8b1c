"""Reloads plugin modules after their files have changed, all or none.

In: the modules that `--plugin`, `--queue` and the entry points of installed packages name. Out: new versions
of these and the rest of their packages, or of their folders; existing objects keep the old classes.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


class FreshModules:
    """Re-imports some modules of this process, and related ones, when their files change."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    async def state(self) -> object:
        """A value that changes with any of the files."""
        return frozenset(
            (name, stat.st_mtime_ns, stat.st_size)
            for name, module in self._modules().items()
            if (stat := _stat(module)) is not None
        )

    def reloaded(self, use: Callable[[], T]) -> T:
        """The result of `use`, which re-imports the modules. If it fails, the old ones stay."""
        old = self._modules()
        for name, module in old.items():
            del sys.modules[name]
            # Compiled files have a resolution of one second; a file may be saved twice in one.
            with suppress(OSError, TypeError):
                os.unlink(module.__cached__)
        importlib.invalidate_caches()
        try:
            return use()
        except BaseException:
            for name in self._modules():
                del sys.modules[name]
            sys.modules.update(old)
            raise

    def _modules(self) -> dict[str, ModuleType]:
        roots = {root for name in self._names if (root := _root(name)) is not None}
        packages = tuple(f"{root.__name__}." for root in roots if hasattr(root, "__path__"))
        folders = {Path(file).parent for root in roots if (file := root.__file__) and _is_loose(root)}
        return {
            name: module
            for name, module in list(sys.modules.items())
            if name in self._names
            or (
                _is_outside_kuberth(module)
                and (f"{name}.".startswith(packages) or _is_in_folders(module, folders))
            )
        }


def _root(name: str) -> ModuleType | None:
    """The outermost imported package around a module, or the module itself. Namespaces have no file."""
    parts = name.split(".")
    outwards = (sys.modules.get(".".join(parts[:length])) for length in range(1, len(parts) + 1))
    return next((module for module in outwards if getattr(module, "__file__", None) is not None), None)


def _is_outside_kuberth(module: ModuleType) -> bool:
    """Whether the module is not part of Kuberth."""
    return module.__name__.partition(".")[0] not in ("kuberth", "__main__")


def _is_loose(module: ModuleType) -> bool:
    """Whether the module is in a folder, not in a package, so that other modules there may belong to it."""
    return not hasattr(module, "__path__") and "site-packages" not in Path(module.__file__ or "").parts


def _is_in_folders(module: ModuleType, folders: set[Path]) -> bool:
    file = getattr(module, "__file__", None)
    if file is None:
        return False
    path = Path(file)
    return "site-packages" not in path.parts and any(folder in path.parents for folder in folders)


def _stat(module: ModuleType) -> os.stat_result | None:
    file = getattr(module, "__file__", None)
    try:
        return None if file is None else Path(file).stat()
    except OSError:
        return None
