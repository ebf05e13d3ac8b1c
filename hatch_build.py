"""Builds record the git commit that they are made from, and where the project is.

In: `$KUBERTH_COMMIT`, else the checkout; and `$GITHUB_REPOSITORY`, which a workflow has. Out: the file
`kuberth/commit.txt`, inside the wheel and the sdist alone (a wheel that is built from an sdist takes over the
sdist's); the project's URLs, and a description whose links and pictures work outside of the repository.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

FILE = "src/kuberth/commit.txt"
_RELATIVE_LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?!https?://|#|mailto:)([^)]+)\)")


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


class RepositoryHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("GITHUB_REPOSITORY", "")
        if repository:
            home = f"https://github.com/{repository}"
            metadata["urls"] = {
                "Homepage": home,
                "Changelog": f"{home}/blob/main/CHANGELOG.md",
                "Issues": f"{home}/issues",
            }
            text = with_absolute_links(text, repository)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_absolute_links(text: str, repository: str) -> str:
    """A page of the repository with links and pictures that work elsewhere."""

    def absolute(link: re.Match[str]) -> str:
        picture, label, path = link.groups()
        host = (
            f"https://raw.githubusercontent.com/{repository}/main"
            if picture
            else f"https://github.com/{repository}/blob/main"
        )
        return f"{picture}{label}{host}/{path})"

    return _RELATIVE_LINK.sub(absolute, text)


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
