"""Reloads plugin modules after their files have changed, all or none.

In: the modules that `--plugin` and `--queue` name. Out: those and what they import from the same folder,
in new versions; users of old classes keep them.
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
    """Some modules of this process and their neighbours."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    async def look(self) -> object:
        """Differs when one of the files has changed."""
        return frozenset(
            (name, stat.st_mtime_ns, stat.st_size)
            for name, module in self._modules().items()
            if (stat := _stat(module)) is not None
        )

    def reloaded(self, use: Callable[[], T]) -> T:
        """The result of `use`, which imports the modules again. If it fails, the old ones stay."""
        old = self._modules()
        for name, module in old.items():
            del sys.modules[name]
            # Compiled files are distinguished by the second; a file may be saved twice in one.
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
        folders = {
            Path(file).parent
            for name in self._names
            if (file := getattr(sys.modules.get(name), "__file__", None)) is not None
        }
        return {
            name: module
            for name, module in list(sys.modules.items())
            if name in self._names or _is_in(module, folders)
        }


def _is_in(module: ModuleType, folders: set[Path]) -> bool:
    """Whether the module is of one's own: not installed, nor part of Kuberth."""
    file = getattr(module, "__file__", None)
    if file is None or module.__name__.partition(".")[0] in ("kuberth", "__main__"):
        return False
    path = Path(file)
    return "site-packages" not in path.parts and any(folder in path.parents for folder in folders)


def _stat(module: ModuleType) -> os.stat_result | None:
    file = getattr(module, "__file__", None)
    try:
        return None if file is None else Path(file).stat()
    except OSError:
        return None
