"""Refuses a data folder that another user could have prepared or could change.

In: the folder of a cluster, before anything in it is read. Out: ConfigError if the folder, or a file with
credentials in it, belongs to another user or can be written by every user: the token of a planted file would
give its author administrator rights.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kuberth.errors import ConfigError

_READ: Final = ("pki", "pki/*", "cluster.sqlite*", "kubeconfig")
"""What a start reads; other files in the folder do not matter."""
_ADVICE: Final = "choose another folder with --data, or keep nothing with --memory"


def expect_own(folder: Path) -> None:
    """ConfigError unless all of it is this user's alone to write."""
    for path in _parts(folder):
        found = path.stat()
        if found.st_uid != os.geteuid():
            raise ConfigError(
                f"{path} belongs to another user (UID {found.st_uid}), who could read or change the cluster; "
                f"{_ADVICE}"
            )
        if found.st_mode & stat.S_IWOTH:
            raise ConfigError(
                f"{path} can be written by every user of this machine; run `chmod o-w {path}` if it has only "
                f"your files, or {_ADVICE}"
            )


def _parts(folder: Path) -> Iterator[Path]:
    yield folder
    for pattern in _READ:
        yield from (path for path in sorted(folder.glob(pattern)) if path.exists())
