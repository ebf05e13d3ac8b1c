"""`python hack/mutants.py [PACKAGE ...]`: which changes of the code do the tests not notice?

In: packages of `kuberth` with the tests that are to hold them (`TESTS`). Each mutant changes one thing in
one module: a comparison, a boolean, a number, an operator, a condition, or a statement that is gone. Out: the
share of mutants that some test fails on, and those that live. A forked child serves the changed module by an
import hook, so that no file is written and libraries are loaded once. A first run without any mutant measures
the test files: those that import the mutant's module go first, then the quick ones. Not part of CI: it takes
its time.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib.abc
import importlib.util
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.machinery import ModuleSpec
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest
from hypothesis import Phase, settings

ROOT: Final = Path(__file__).resolve().parent.parent
TESTS: Final[Mapping[str, Sequence[str]]] = {
    "queue": ("tests/unit/queue",),
    "intake": ("tests/unit/intake",),
    "framework": (
        "tests/unit/framework",
        "tests/unit/scheduling/test_plans.py",
        "tests/unit/scheduling/test_random_plugins.py",
        "tests/unit/scheduling/test_statements.py",
        "tests/unit/scheduling/test_plans_save_work.py",
        "tests/unit/scheduling/test_cycle.py",
        "tests/unit/scheduling/test_extended_cycle.py",
        "tests/unit/scheduling/groups",
        "tests/unit/plugins/test_default_preemption_plans.py",
        "tests/unit/assembly/test_posted_bindings.py",
        "tests/integration/test_bad_plugins.py",
        "tests/integration/test_metrics.py",
        "tests/integration/test_pod_way.py",
    ),
    "scheduling": (
        "tests/unit/scheduling",
        "tests/integration/test_pod_way.py",
        "tests/integration/test_metrics.py",
        "tests/integration/test_verbosity.py",
        "tests/integration/test_overlapping_cycles.py",
        "tests/integration/test_gangs.py",
        "tests/integration/test_extenders.py",
    ),
    "outcomes": (
        "tests/unit/outcomes",
        "tests/integration/test_pod_way.py",
        "tests/integration/test_metrics.py",
    ),
    "binding": (
        "tests/unit/binding",
        "tests/integration/test_pod_way.py",
        "tests/integration/test_metrics.py",
        "tests/integration/test_verbosity.py",
        "tests/integration/test_gangs.py",
        "tests/unit/assembly",
    ),
    "explaining": ("tests/unit/explaining", "tests/conformance/test_explanations.py"),
    "plugins/dynamic_resources": (
        "tests/unit/plugins/test_dynamic_resources.py",
        "tests/unit/plugins/test_background_searches.py",
        "tests/unit/plugins/test_device_inventory.py",
        "tests/unit/plugins/test_device_search.py",
        "tests/unit/plugins/test_device_sites.py",
        "tests/unit/plugins/test_claim_concerns.py",
        "tests/unit/plugins/test_claim_writing.py",
        "tests/unit/plugins/test_group_claims.py",
        "tests/unit/plugins/test_node_resources_of_devices.py",
        "tests/integration/test_device_timeouts.py",
        "tests/integration/test_devices.py",
        "tests/integration/test_endless_searches.py",
        "tests/integration/test_gang_devices.py",
    ),
    "cel": ("tests/unit/cel", "tests/integration/test_endless_searches.py"),
}
QUICK: Final = 1.0
"""Seconds. Test files that take longer go last: only mutants that all others let live meet them."""
PATIENCE: Final = 3.0
"""A mutant that takes this many times as long as all tests without it counts as an endless loop, as does a
single test that takes as long as all of them together."""
PRELOADED: Final = ("pytest", "hypothesis.stateful", "numpy", "msgspec", "yaml", "click", "asyncio")

NOT_LOADED: Final = 71
"""What a child returns whose tests imported the module without the mutant, or did not import it."""

PYTEST: Final = (
    *("-q", "-x", "-p", "no:cacheprovider"),
    # pytest rewrites assertions in packages that bring plugins for it, Kuberth among them, by an import hook
    # that would stand before the mutant's.
    "--assert=plain",
    # What is preloaded for speed is not rewritten, and need not be.
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)

_SWAPS: Final[Mapping[type[ast.AST], type[ast.AST]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    """One changed module."""

    module: str
    path: Path
    line: int
    change: str
    tree: ast.Module

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.change}"


def mutants_of(module: str, path: Path) -> Iterator[Callable[[], Mutant]]:
    """Every mutant of a module, each to be made when it is wanted: a sample leaves most of them out."""
    original = ast.parse(path.read_text(encoding="utf-8"))
    for number, node in enumerate(_mutable(original)):
        for choice in range(len(_changes(node))):
            yield partial(_mutant, module, path, original, number, choice)


def _mutant(module: str, path: Path, original: ast.Module, number: int, choice: int) -> Mutant:
    tree = copy.deepcopy(original)
    change = _changes(next(islice(_mutable(tree), number, None)))[choice]
    changed = change.node
    before, line = ast.unparse(changed), getattr(changed, "lineno", 0)
    change()
    after = "nothing" if isinstance(change, _Remove) else _short(ast.unparse(changed))
    return Mutant(module, path, line, f"{_short(before)}  →  {after}", ast.fix_missing_locations(tree))


def _mutable(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes worth changing: no annotations, no texts, nothing of what is only logged."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_silent(child):
                continue
            yield child
            yield from _mutable(child)


def _is_silent(node: ast.AST) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.JoinedStr):
        return True
    if isinstance(node, ast.Expr):
        call = node.value
        if isinstance(call, ast.Constant):
            return True
        return isinstance(call, ast.Call) and ast.unparse(call.func).startswith("logger.")
    if isinstance(node, ast.Assign | ast.AnnAssign):
        # Aliases of types and the list of what is public.
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        return isinstance(target, ast.Name) and (target.id == "__all__" or target.id[0].isupper())
    return False


def _changes(node: ast.AST) -> list[_Change]:
    """What can be done to this node, in place."""
    found: list[_Change] = []
    match node:
        case ast.Compare():
            found += [_Swap(node, "ops", index) for index, op in enumerate(node.ops) if type(op) in _SWAPS]
        case ast.BoolOp() | ast.BinOp() | ast.AugAssign() if type(node.op) in _SWAPS:
            found.append(_Swap(node, "op"))
        case ast.Constant(value=bool()):
            found.append(_Set(node, "value", not node.value))
        case ast.Constant(value=int() | float()):
            found.append(_Set(node, "value", node.value + 1))  # type: ignore[operator]  # a number
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        match node.test:
            case ast.Compare() | ast.BoolOp():
                pass  # changed by themselves
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                found.append(_Set(node, "test", operand))
            case condition:
                found.append(_Set(node, "test", ast.UnaryOp(ast.Not(), condition)))
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list):
            found += [_Remove(body, index) for index, one in enumerate(body) if _is_removable(one)]
    return found


def _is_removable(node: ast.AST) -> bool:
    if _is_silent(node):
        return False
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    if isinstance(node, ast.Return):
        return node.value is None
    return isinstance(node, ast.Expr | ast.AugAssign | ast.Delete | ast.Continue | ast.Break | ast.Raise)


class _Change:
    node: ast.AST
    """What is changed."""

    def __call__(self) -> None:
        raise NotImplementedError


class _Swap(_Change):
    def __init__(self, node: ast.AST, field: str, index: int | None = None) -> None:
        self.node, self._field, self._index = node, field, index

    def __call__(self) -> None:
        held = getattr(self.node, self._field)
        if self._index is None:
            setattr(self.node, self._field, _SWAPS[type(held)]())
        else:
            held[self._index] = _SWAPS[type(held[self._index])]()


class _Set(_Change):
    def __init__(self, node: ast.AST, field: str, value: object) -> None:
        self.node, self._field, self._value = node, field, value

    def __call__(self) -> None:
        setattr(self.node, self._field, self._value)


class _Remove(_Change):
    def __init__(self, body: list[ast.stmt], index: int) -> None:
        self.node = body[index]
        self._body, self._index = body, index

    def __call__(self) -> None:
        self._body[self._index] = ast.Pass()


def _short(text: str, limit: int = 90) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}…"


class _OneModule(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves a mutant in place of its module."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self.is_loaded = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=str(self._mutant.path))

    def exec_module(self, module: ModuleType) -> None:
        self.is_loaded = True
        module.__file__ = str(self._mutant.path)
        exec(compile(self._mutant.tree, str(self._mutant.path), "exec"), module.__dict__)


class _Stopwatch:
    """Of pytest: writes down how long the tests of each file took."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        Path(self._path).write_text(json.dumps(self._seconds), encoding="utf-8")


@dataclass(frozen=True)
class Tests:
    """A package's tests, as a run without any mutant showed them."""

    files: Mapping[str, float]
    """Each with the seconds that its tests took."""
    seconds: float
    """What all of them took, with all that has to be loaded."""

    @classmethod
    def measured(cls, package: str) -> Tests:
        with tempfile.NamedTemporaryFile(prefix="mutants-") as output:
            started = time.monotonic()
            if os.waitpid(_forked([TESTS[package]], plugins=[_Stopwatch(output.name)]), 0)[1] != 0:
                tests = " ".join(TESTS[package])
                raise SystemExit(f"the tests of {package} fail without any mutant; see pytest {tests}")
            return cls(json.load(output), time.monotonic() - started)

    def start(self, mutant: Mutant) -> int:
        """The child that tests it, group by group until a test fails."""
        hangs = ("--timeout", str(self.seconds), "--timeout-method", "thread")
        return _forked(self._groups(mutant), hangs, mutant=mutant)

    def _groups(self, mutant: Mutant) -> Sequence[Sequence[str]]:
        """The module's own tests first, slow ones last."""
        groups: tuple[list[str], ...] = ([], [], [])
        for name in sorted(self.files, key=self.files.__getitem__):
            is_own = mutant.path.stem in Path(name).name or mutant.module in _imports(name)
            groups[0 if is_own else 1 if self.files[name] <= QUICK else 2].append(name)
        return groups


@cache
def _imports(name: str) -> frozenset[str]:
    """The modules that a test file imports, or imports from."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module)):
                found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
            case ast.Import():
                found |= {alias.name for alias in node.names}
    return frozenset(found)


def _forked(
    groups: Sequence[Sequence[str]],
    arguments: Sequence[str] = (),
    *,
    mutant: Mutant | None = None,
    plugins: Sequence[object] = (),
) -> int:
    """Run the tests, group by group until one fails, in a forked child, which is returned."""
    child = os.fork()
    if child:
        return child
    os.setsid()
    with open(os.devnull, "w") as nowhere, contextlib.suppress(BaseException):
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        finder = None if mutant is None else _OneModule(mutant)
        if finder is not None:
            sys.meta_path.insert(0, finder)
        runs = (pytest.main([*PYTEST, *arguments, *tests], plugins) for tests in groups if tests)
        is_noticed = any(runs)
        os._exit(NOT_LOADED if finder is not None and not finder.is_loaded else is_noticed)
    os._exit(70)


def main() -> None:
    options = _parser().parse_args()
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp(prefix="mutants-")
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # The profile of the tests inherits this one: the first failing example is enough, however large.
    settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], derandomize=True)
    settings.load_profile("mutants")
    survivors: list[Mutant] = []
    for package in options.packages:
        makers = [
            maker
            for path in sorted((ROOT / "src/kuberth" / package).rglob("*.py"))
            if path.name != "__init__.py" and (not options.module or path.stem in options.module)
            for maker in mutants_of(".".join(path.relative_to(ROOT / "src").with_suffix("").parts), path)
        ]
        if options.sample and options.sample < len(makers):
            makers = random.Random(options.seed).sample(makers, options.sample)
        mutants = [maker() for maker in makers]
        alive = _alive(mutants, Tests.measured(package), jobs=options.jobs)
        survivors += alive
        lives = Counter(mutant.path.name for mutant in alive)
        for name, number in sorted(Counter(mutant.path.name for mutant in mutants).items()):
            print(f"  {name}: {number - lives[name]}/{number}")
        killed = len(mutants) - len(alive)
        share = 100 * killed / len(mutants) if mutants else 100.0
        print(f"{package}: {killed} of {len(mutants)} mutants noticed ({share:.1f} %)", flush=True)
    for mutant in survivors:
        print(f"lives: {mutant}")


def _alive(mutants: Sequence[Mutant], tests: Tests, *, jobs: int) -> list[Mutant]:
    """Those that no test notices."""
    waiting, alive = list(reversed(mutants)), []
    running: dict[int, tuple[Mutant, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            running[tests.start(mutant)] = mutant, time.monotonic()
        time.sleep(0.05)
        for child, (mutant, started) in list(running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            seconds = time.monotonic() - started
            if not ended and seconds > PATIENCE * tests.seconds:
                os.killpg(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
            elif not ended:
                continue
            del running[child]
            if os.waitstatus_to_exitcode(status) == NOT_LOADED:
                raise SystemExit(f"{mutant}: the tests ran without the mutant; no result means anything")
            if status == 0:
                alive.append(mutant)
            print(f"  {'noticed' if status else 'lives'} ({seconds:.0f} s): {mutant}", flush=True)
    return alive


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python hack/mutants.py", description=__doc__)
    parser.add_argument("packages", nargs="*", default=["queue", "intake"], metavar="PACKAGE")
    parser.add_argument("--module", nargs="+", metavar="NAME", help="only these modules of the packages")
    parser.add_argument(
        "--sample", type=int, metavar="N", help="number of mutants of a package, drawn at random"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the chance (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    return parser


if __name__ == "__main__":
    main()
