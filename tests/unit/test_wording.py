"""The documentation, the help texts, the sources and the tests avoid words that hide who does what.

Each pattern comes with the words to write instead. Add a pattern when a phrase keeps coming back.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

import click
import pytest

from kuberth import __version__
from kuberth.cli import cli
from tests.docs.pages import PAGES, ROOT, prose

INSTEAD: Final = {
    r"\b(?:told|tells?|telling)\b": "log, record, notify, report, print, show or state",
    r"\bnobody\b": "no pod, no plugin, no client: name what there is none of",
    r"\b(?:whoever|anybody|somebody|everybody)\b": "name it: a client, another pod, any plugin, all users",
    r"\banew\b": "again, or the verb with re-: recreate, reload, recompute",
    r"\bso many\b": "the number of …, a limited number, at a rate of …",
    r"\bby lot\b": "at random",
    r"\brehears\w*": "dry run, or what-if",
    r"\baloft\b": "in flight",
    r"\bpromised (?:a |the )?nodes?\b": "nominated node",
    r"\brooms\b": "queues: activeQ, backoffQ, unschedulable pods, gated pods; or sub-queues",
    r"\bthe very\b": "the same, the real",
    r"\bthose who\b": "name them: users, clients, programs",
    r"\bno one\b": "name what there is none of: no pod, no client",
    r"\bone's own\b": "your own, custom",
    r"\bwhat (?:comes|came) of\b|\bcame of it\b": "the result of …",
    r"\bof which no\b": "name the parts: none of the changes is superfluous",
    r"\b(?:in vain|as things stand)\b": "without effect; in the current state",
    r"\b(?:be so no longer|no longer so)\b": "has changed, is outdated",
    r"\bas (?:nearly|hardly) (?:always|ever)\b": "the usual case, rare",
    r"\bputs? up with\b": "tolerates",
    r"\b(?:looked at|asked about|gone on) (?:anew|afresh|once more)\b": "evaluated again, continued",
}
"""What not to write, and what to write instead."""

ALLOWED: Final = frozenset({"tells_apart"})
"""Former names that the error messages of `framework/inputs.py` answer."""

_PATTERN: Final = re.compile("|".join(f"({each})" for each in INSTEAD), re.IGNORECASE)
_INLINE_CODE: Final = re.compile(r"`[^`]*`")
_RELEASED: Final = re.compile(rf"## \[?(?!{re.escape(__version__)}\b)\d")
"""A section of the changelog about a version before this one; what it says is not changed any more."""
CHECKED_FOLDERS: Final = ("src", "tests", "benchmarks", "hack")
_THIS_FILE: Final = Path(__file__)
"""Quotes what is not to be written."""


class Finding(NamedTuple):
    where: str
    phrase: str
    instead: str

    def __str__(self) -> str:
        return f"{self.where}: “{self.phrase}”; write instead: {self.instead}"


def findings(where: str, text: str) -> Iterator[Finding]:
    for found in _PATTERN.finditer(text):
        assert found.lastindex is not None
        yield Finding(where, found[0], list(INSTEAD.values())[found.lastindex - 1])


def report(found: list[Finding]) -> str:
    return "\n" + "\n".join(map(str, found))


def page_lines(page: Path) -> Iterator[str]:
    """The prose of a page without inline code; the changelog only up to the section of this version."""
    lines = prose(page)
    yield from until_earlier_version(lines) if page.name == "CHANGELOG.md" else without_code(lines)


def until_earlier_version(lines: Iterable[str]) -> Iterator[str]:
    """Lines of the changelog, without inline code, that are about this version or about none yet."""
    return without_code(takewhile(lambda line: _RELEASED.match(line) is None, lines))


def without_code(lines: Iterable[str]) -> Iterator[str]:
    return (_INLINE_CODE.sub("``", line) for line in lines)


def help_texts(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    """The command or option, and its help, of a command and all commands below it."""
    for text in (command.help, command.short_help, command.epilog):
        yield path, text or ""
    for parameter in command.params:
        yield f"{path} {'/'.join(parameter.opts)}", str(getattr(parameter, "help", None) or "")
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from help_texts(below, f"{path} {name}")


def source_texts(source: str) -> Iterator[tuple[int, str]]:
    """The line and text of every string (docstrings too) and comment of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in ALLOWED:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_pages(page: Path) -> None:
    found = list(findings(str(page), "\n".join(page_lines(page))))
    assert not found, report(found)


def test_help_texts() -> None:
    found = [each for path, text in help_texts(cli, "kuberth") for each in findings(path, text)]
    assert not found, report(found)


@pytest.mark.parametrize("folder", CHECKED_FOLDERS)
def test_sources(folder: str) -> None:
    found = [
        each
        for file in sorted((ROOT / folder).rglob("*.py"))
        if file != _THIS_FILE
        for line, text in source_texts(file.read_text(encoding="utf-8"))
        for each in findings(f"{file.relative_to(ROOT)}:{line}", text)
    ]
    assert not found, report(found)


def test_yaml_of_the_package() -> None:
    """Workloads of the bench, schema tables and manifests, with their comments."""
    found = [
        each
        for file in sorted((ROOT / "src").rglob("*.yaml"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        for each in findings(f"{file.relative_to(ROOT)}:{number}", line)
    ]
    assert not found, report(found)


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("The plugin is told of it.", ["told"]),
        ("Nobody waits; start\nanew.", ["Nobody", "anew"]),
        ("so many pods, drawn by lot", ["so many", "by lot"]),
        ("a rehearsal", ["rehearsal"]),
        ("the very rooms of those who ask", ["the very", "rooms", "those who"]),
        ("a rule of one's own, asked about once more", ["one's own", "asked about once more"]),
        ("changes of which no part is needed; what comes of the trial", ["of which no", "what comes of"]),
        ("No one waits in vain", ["No one", "in vain"]),
        ("tolerations and intellect", []),
    ],
)
def test_patterns(text: str, phrases: list[str]) -> None:
    assert [each.phrase for each in findings("here", text)] == phrases


def test_strings_docstrings_and_comments_are_read() -> None:
    source = '"""A docstring."""\nx = f"a string {1}"  # a comment\n'
    assert [text for _line, text in source_texts(source)] == ["A docstring.", "a string ", "# a comment"]


def test_the_changelog_is_read_up_to_this_version() -> None:
    lines = ["## Unreleased", "- Next.", f"## {__version__}", "- Now, with `code`.", "## 0.0.1", "- Before."]
    assert list(until_earlier_version(lines)) == [*lines[:3], "- Now, with ``."]


def test_every_command_is_walked() -> None:
    walked = {path for path, _text in help_texts(cli, "kuberth")}
    assert {"kuberth up --nodes", "kuberth simulate sweep --seeds"} <= walked
