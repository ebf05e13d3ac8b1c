"""docs/reference.md is what the docstrings say, and leaves out nothing that a plugin can import."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hack.commands import PAGE as PAGE_OF_COMMANDS
from hack.reference import PAGE, ROOT, SECTIONS, page

import kuberth.evaluation
import kuberth.framework
import kuberth.queue
import kuberth.simulation
import kuberth.testing

DESCRIBED = {entry.name for section in SECTIONS for entry in section.entries}
FOR_THE_SCHEDULER = {"Profile", "Registry", "Runner", "Backoff", "FairShareQueue"}
"""What puts plugins to work, and queues together: public, and nothing that a plugin meets."""


def test_the_page_is_what_the_docstrings_say() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert page() == written, "docs/reference.md is out of date: run `make reference`"


def test_the_commands_are_what_help_prints() -> None:
    # In a process of its own: click remembers the names of options, which other tests change.
    script = "from hack.commands import page; print(page(), end='')"
    made = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    written = PAGE_OF_COMMANDS.read_text(encoding="utf-8")
    assert made.stdout == written, "docs/commands.md is out of date: run `make reference`"


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(package.__all__, id=package.__name__)
        for package in (
            kuberth.framework,
            kuberth.evaluation,
            kuberth.queue,
            kuberth.simulation,
            kuberth.testing,
        )
    ],
)
def test_every_public_name_is_on_it(names: list[str]) -> None:
    assert set(names) <= DESCRIBED | FOR_THE_SCHEDULER


@pytest.mark.parametrize(
    "row",
    [
        "| `tolerations` | `tuple[Toleration, ...]` |",
        "| `deletion_timestamp` | `datetime \\| None` |",
        "| `allocatable` | `Mapping[str, str \\| int \\| float]` |",
    ],
)
def test_it_has_the_fields_of_pods_and_nodes(row: str) -> None:
    assert row in PAGE.read_text(encoding="utf-8")
