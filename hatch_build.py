"""Builds record the git commit that they are made from, as `kuberth/commit.txt`.

In: `$KUBERTH_COMMIT`, else the checkout. Out: the file, inside the wheel and the sdist alone. A wheel that is
built from an sdist takes over the sdist's file.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILE = "src/kuberth/commit.txt"


class CommitHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        found = commit(Path(self.root))
        if version == "editable" or not found or (Path(self.root) / FILE).exists():
            return
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / "commit.txt"
        file.write_text(found + "\n", encoding="utf-8")
        file.chmod(0o644)
        build_data["force_include"][str(file)] = FILE if self.target_name == "sdist" else "kuberth/commit.txt"


def commit(root: Path) -> str:
    """The commit of the tree at `root`, with `-dirty` where files differ from it; "" if there is none."""
    given = os.environ.get("KUBERTH_COMMIT", "")
    if given:
        if not re.fullmatch(r"[0-9a-f]{40}(-dirty)?", given):
            raise ValueError(
                f"KUBERTH_COMMIT is {given!r}; expected 40 hexadecimal digits, or those and -dirty"
            )
        return given
    if not (root / ".git").exists():
        return ""  # an unpacked sdist, perhaps inside of another project's checkout
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
