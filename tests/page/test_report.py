"""The report of a simulation, in a browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

EXAMPLES = Path(__file__).parents[2] / "examples" / "simulate"


def simulate(file: Path, *words: str) -> Path:
    workload = ("--nodes", "2", "--generate", "services", "--pods", "60", "--days", "0.1")
    command = [sys.executable, "-m", "kuberth", "simulate", *workload, "--report", str(file), *words]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    return file


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compared = [str(EXAMPLES / f"{name}.yaml") for name in ("packed", "gpus-first", "spread")]
    return simulate(tmp_path_factory.mktemp("report") / "report.html", "--seeds", "2", "--compare", *compared)


@pytest.mark.parametrize("width", [400, 1280])
def test_a_report_is_as_wide_as_the_screen(chromium: Browser, report: Path, width: int) -> None:
    page = chromium.new_page(viewport={"width": width, "height": 800})
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == width
    pictures = [each.bounding_box() for each in page.locator(".pictures svg").all()]
    assert pictures
    assert all(box is not None and box["x"] + box["width"] <= width for box in pictures)
    page.close()


def test_tables_of_a_single_run_fit_a_telephone(chromium: Browser, tmp_path: Path) -> None:
    page = chromium.new_page(viewport={"width": 400, "height": 800})
    page.goto(simulate(tmp_path / "report.html").as_uri())
    widths = page.evaluate(
        "[...document.querySelectorAll('.table')].map(each => [each.scrollWidth, each.clientWidth])"
    )
    assert widths
    assert all(inside <= outside for inside, outside in widths), widths
    page.close()
