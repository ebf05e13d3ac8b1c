"""`python -m hack.badges`: make the README's badges from facts of this repository.

In: pyproject.toml and the package. Out: an SVG each in docs/images. No badge depends on a server.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Final

import kuberth

ROOT: Final = Path(__file__).parents[1]
WIDTH: Final = 6.7
"""Of a character, in pixels."""


def facts() -> Mapping[str, str]:
    """What is on each badge, by its name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = [each for name in project["classifiers"] for each in re.findall(r"Python :: (3\.\d+)$", name)]
    return {
        "kubernetes": kuberth.KUBERNETES_VERSION,
        "python": f"{pythons[0]} to {pythons[-1]}",
        "license": project["license"],
    }


def badge(name: str, value: str) -> str:
    """The badge of one fact."""
    left, right = (round(len(text) * WIDTH + 14) for text in (name, value))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{escape(name)}: {escape(value)}"><title>{escape(name)}: {escape(value)}</title>'
        f'<rect width="{left + right}" height="20" rx="3" fill="#31437f"/>'
        f'<path d="M3 0H{left}V20H3Q0 20 0 17V3Q0 0 3 0" fill="#444b5a"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="7" y="14" textLength="{left - 14}">{escape(name)}</text>'
        f'<text x="{left + 7}" y="14" textLength="{right - 14}">{escape(value)}</text></g></svg>\n'
    )


def main() -> None:
    for name, value in facts().items():
        (ROOT / "docs" / "images" / f"badge-{name}.svg").write_text(badge(name, value), encoding="utf-8")


if __name__ == "__main__":
    main()
