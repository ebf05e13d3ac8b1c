"""Every code block of the documentation does what it shows.

Python is executed, the blocks of a page one after the other in one namespace. YAML goes through the loader
it is meant for. Commands of `kuberth` are parsed; those that only read a file of the page are really run. A
block whose first line is a comment with a file's name is that file, for the other blocks of its page.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import shlex
import sys
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kuberth.assembly.profiles import full_registry
from kuberth.bench.cases import read_workloads
from kuberth.cli import cli
from kuberth.cli.context import Extras
from kuberth.clock import SystemClock
from kuberth.config import load
from kuberth.config.feature_gates import GATES
from kuberth.framework import Plugin, Registry
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.devices import check_drivers, load_devices
from kuberth.local.hollow.shapes import load_shapes
from kuberth.local.manifests import Manifest
from kuberth.programs.up.cluster import apply
from kuberth.text.documents import read_documents
from tests.docs.pages import PAGES, ROOT, Block, blocks

BLOCKS = {page: list(blocks(page)) for page in PAGES}
LANGUAGES = {"python", "console", "yaml", "toml", "dockerfile", "go", "text"}
SCHEDULER_CONFIGURATION = "KubeSchedulerConfiguration"
OTHER_PROGRAMS = {
    "kubectl",
    "etcd",
    "kube-apiserver",
    "openssl",
    "mkdir",
    "echo",
    "helm",
    "kustomize",
    "docker",
    "curl",
    "cd",
    "kill",
    "wait",
    "export",
    "pip",
    "mv",
    "pre-commit",
    "source",
    "pytest",
    "sed",
    "timeout",
}
SHELL = {"|", ">", "2>", "&"}
_READ = re.compile(r"[\w./-]+\.(?:yaml|json|jsonl|csv|crt|gz)")
TARGETS = set(re.findall(r"^([a-z0-9]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def of(language: str) -> list[Any]:
    return [
        pytest.param(block, id=block.where)
        for page in PAGES
        for block in BLOCKS[page]
        if block.language == language and not block.not_run
    ]


def pages_with(language: str) -> list[Any]:
    return [
        pytest.param(page, id=str(page))
        for page in PAGES
        if any(block.language == language for block in BLOCKS[page])
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the blocks of a page find the files that the page shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def write_files(page: Path, folder: Path) -> None:
    for block in BLOCKS[page]:
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def run_python(page: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Execute the page's Python; returns what it defined."""
    module = types.ModuleType(f"docs_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # where structs look up their annotations
    for block in BLOCKS[page]:
        if block.language == "python" and not block.not_run:
            code = compile("\n" * (block.line - 1) + block.text, str(ROOT / page), "exec")
            exec(code, module.__dict__)
    return module.__dict__


def plugins_in(namespace: dict[str, Any]) -> dict[str, type[Plugin]]:
    return {
        value.name: value
        for value in namespace.values()
        if isinstance(value, type) and issubclass(value, Plugin) and "name" in vars(value)
    }


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_block_says_what_it_is(page: Path) -> None:
    assert {block.language for block in BLOCKS[page]} <= LANGUAGES


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_runs(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(page, folder)
    run_python(page, monkeypatch)


@pytest.mark.parametrize("page", pages_with("yaml"))
def test_yaml_is_taken_by_its_loader(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(page, folder)
    registry = full_registry(plugins_in(run_python(page, monkeypatch)))
    manifests: list[Any] = []
    for block in BLOCKS[page]:
        if block.language != "yaml" or block.not_run:
            continue
        documents, errors = read_documents(block.text.encode())
        assert not errors, block.where
        for tree in (document.tree for document in documents):
            if isinstance(tree, list) and "workloadTemplate" in tree[0]:
                assert all(workload.refusal() is None for workload in read_workloads(folder / block.file)), (
                    block.where
                )
            elif isinstance(tree, dict) and "drivers" in tree:
                asyncio.run(check_devices(tree, folder / block.file))
            elif not isinstance(tree, dict) or "apiVersion" not in tree:
                assert load_shapes(tree if isinstance(tree, list) else tree["nodes"], count=10), block.where
            elif tree["kind"] == SCHEDULER_CONFIGURATION:
                load_configuration(tree, registry)
            else:
                manifests.append(tree)
    asyncio.run(apply_all(manifests))


def load_configuration(tree: dict[str, Any], registry: Registry) -> None:
    load(
        tree,
        known_plugins=registry.names(),
        extension_points=registry.extension_points(),
        args_types=registry.args_types(),
    )


async def check_devices(tree: dict[str, Any], file: Path) -> None:
    store = await RevisionStore.open(None)
    try:
        await check_drivers(Core(store, clock=SystemClock()), load_devices(tree), file)
    finally:
        await store.close()


async def apply_all(manifests: list[Any]) -> None:
    """To the local cluster's own server, which decodes, completes and checks them."""
    store = await RevisionStore.open(None)
    try:
        core = Core(store, clock=SystemClock(), feature_gates=dict.fromkeys(GATES, True))
        for manifest in manifests:
            await apply(core, Manifest(manifest))
    finally:
        await store.close()


@pytest.mark.parametrize("block", of("toml"))
def test_toml_is_toml(block: Block) -> None:
    tomllib.loads(block.text)


def commands(block: Block) -> Iterator[list[str]]:
    """The words of every command, without prompt, comment and the brackets of what may be left out."""
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith("$ "):
            words = [word.strip("[]") for word in shlex.split(line[2:], comments=True)]
            yield [word for word in words if word]


@pytest.mark.parametrize("block", of("console"))
def test_commands_exist(block: Block, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Command, "invoke", lambda _command, _context: None)
    found = list(commands(block))
    assert found, "a console block shows commands, each after `$ `"
    for words in found:
        program, arguments = words[0], words[1:]
        if program == "kuberth":
            parse(arguments, folder)
        elif program == "make":
            assert set(arguments) <= TARGETS, arguments
        elif program in ("python", "python3"):
            assert arguments[0] == "-m"
            assert importlib.util.find_spec(arguments[1]) is not None, arguments[1]
        else:
            assert program in OTHER_PROGRAMS, program


def parse(arguments: list[str], folder: Path) -> None:
    """Parse a `kuberth` command without running it. Files that it would read are created, empty."""
    end = next((place for place, word in enumerate(arguments) if word in SHELL), len(arguments))
    for word in arguments[:end]:
        if _READ.fullmatch(word):
            (folder / word).parent.mkdir(parents=True, exist_ok=True)
            (folder / word).touch()
    ended = CliRunner().invoke(cli, arguments[:end], obj=Extras())
    assert ended.exit_code == 0, ended.output


@pytest.mark.parametrize("page", pages_with("console"))
def test_configurations_of_the_page_are_valid(page: Path, folder: Path) -> None:
    """`kuberth config` with files that the page shows."""
    write_files(page, folder)
    for block in BLOCKS[page]:
        for words in commands(block) if block.language == "console" else ():
            files = [word for word in words if word.endswith((".yaml", ".json"))]
            if words[:2] == ["kuberth", "config"] and all((folder / file).exists() for file in files):
                ended = CliRunner().invoke(cli, words[1:], obj=Extras())
                assert ended.exit_code == 0, ended.output


def outputs(block: Block) -> Iterator[tuple[list[str], str]]:
    """Every command of a block with the lines that the page shows below it."""
    for part in block.text.replace("\\\n", " ").split("$ ")[1:]:
        line, _, shown = part.partition("\n")
        yield shlex.split(line), shown


@pytest.mark.parametrize("page", pages_with("console"))
def test_explanations_of_the_page_are_what_is_printed(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kuberth explain` on files that the page shows."""
    write_files(page, folder)
    monkeypatch.setenv("COLUMNS", "80")
    for block in BLOCKS[page]:
        for words, shown in outputs(block) if block.language == "console" else ():
            if words[:2] == ["kuberth", "explain"] and "--cluster" in words:
                ended = CliRunner().invoke(cli, words[1:], obj=Extras())
                assert ended.output == shown, ended.output
