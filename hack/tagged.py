"""`python -m hack.tagged TAG`: refuse a tag that is not what the tree says, and print the release notes.

In: the tag, as `v0.2.0`. Out: the section of CHANGELOG.md. Exit code 1 names every place that disagrees.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PLACES: Final = {
    "src/kuberth/__init__.py": r'^__version__ = "(.+)"$',
    "deploy/chart/kuberth/Chart.yaml": r"^(?:appVersion|version): (.+)$",
    "deploy/base/kustomization.yaml": r"^  newTag: (.+)$",
}
"""Where the version stands, and how."""


def notes(changelog: str, version: str) -> str:
    """The changelog's section of a version; "" if it has none."""
    found = re.search(
        rf"^## {re.escape(version)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    return "" if found is None else found[1].strip()


def disagreements(version: str, root: Path = ROOT) -> list[str]:
    """One sentence for each place that has another version."""
    found = []
    for name, pattern in PLACES.items():
        stated = re.findall(pattern, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        if not stated or set(stated) != {version}:
            found.append(f"{name} says {', '.join(stated) or 'nothing'}, not {version}")
    if not notes((root / "CHANGELOG.md").read_text(encoding="utf-8"), version):
        found.append(f"CHANGELOG.md has no section ## {version}")
    return found


def main() -> int:
    tag = sys.argv[1] if len(sys.argv) == 2 else ""
    if not re.fullmatch(r"v\d+\.\d+\.\d+", tag):
        print(f"Error: a release's tag is v and three numbers, as v0.2.0, not {tag!r}", file=sys.stderr)
        return 1
    wrong = disagreements(tag[1:])
    for sentence in wrong:
        print(f"Error: {sentence}", file=sys.stderr)
    if not wrong:
        print(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), tag[1:]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
