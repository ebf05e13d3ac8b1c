"""`python -m hack.dist`: build the wheel and the sdist into dist/, check both, and try the wheel.

In: the files that git tracks, `requirements-build.lock`, `requirements.lock`, and the interpreters to try.
Out: `dist/*.whl`, `dist/*.tar.gz` and the bill of materials `dist/*.cdx.json`, with sizes and seconds. Both
packages are built twice, from two folders under different conditions, and have to be equal byte for byte. Any
finding ends it with exit code 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hack.sbom import sbom
from hack.walkthrough import commands

ROOT: Final = Path(__file__).parents[1]
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
WHEEL_LIMIT: Final = 2_000_000
"""Bytes."""
READY_WITHIN: Final = 60
"""Seconds until a hanging `kuberth up` is given up."""
NEEDED: Final = (
    "kuberth/__init__.py",
    "kuberth/py.typed",
    "kuberth/commit.txt",
    "kuberth_plugins/manifests/podgroups.yaml",
    "kuberth/page/index.html",
)
UNWANTED: Final = re.compile(r"(^|/)(tests?|__pycache__|node_modules)(/|$)|\.(pyc|ts|map)$|(^|/)\.")


class PackageError(Exception):
    """A package is not what it has to be."""


def check_wheel(names: Sequence[str], size: int) -> None:
    """Raise `PackageError` if a file is missing from the wheel or does not belong there, or it is large."""
    missing = [name for name in NEEDED if name not in names]
    unwanted = [name for name in names if UNWANTED.search(name)]
    outside = [name for name in names if not re.match(r"kuberth(_plugins|-[\w.]+\.dist-info)?/", name)]
    if missing:
        raise PackageError(f"the wheel has no {', '.join(missing)}")
    if unwanted or outside:
        raise PackageError(f"these do not belong into the wheel: {', '.join([*unwanted, *outside])}")
    if size >= WHEEL_LIMIT:
        raise PackageError(f"the wheel has {size:,} bytes, the limit is {WHEEL_LIMIT:,}")


def check_sdist(names: Sequence[str]) -> None:
    """Raise `PackageError` if the sdist lacks what a wheel is built from, or holds what git ignores."""
    inside = {name.partition("/")[2] for name in names}
    needed = {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO"}
    missing = sorted((needed | {"src/kuberth/py.typed", "src/kuberth/commit.txt"}) - inside)
    if missing:
        raise PackageError(f"the sdist has no {', '.join(missing)}")
    unwanted = sorted(name for name in inside if UNWANTED.search(name) and name != ".gitignore")
    if unwanted:
        raise PackageError(f"these do not belong into the sdist: {', '.join(unwanted)}")


def run(*command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """The output of a program; its errors are raised with what it wrote."""
    words = list(map(str, command))
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        raise PackageError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def timed(what: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    print(f"  {what:<58}{time.monotonic() - start:6.1f} s", flush=True)


def uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else "uv"


def copy_tree(target: Path) -> None:
    """Copy what is tracked, and what will be: no file that git ignores gets into a package."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target / name)
            shutil.copymode(source, target / name)


def build(tree: Path, out: Path, builder: Path, env: Mapping[str, str]) -> dict[str, Path]:
    """Build the sdist, and the wheel from the sdist."""
    run(
        uv(),
        "build",
        "--quiet",
        "--no-build-isolation",
        "--python",
        builder,
        "--out-dir",
        out,
        cwd=tree,
        env=env,
    )
    [wheel], [sdist] = out.glob("*.whl"), out.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def build_twice(scratch: Path) -> dict[str, Path]:
    commit = run("git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty").strip()
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct").strip()
    env = {"KUBERTH_COMMIT": commit, "SOURCE_DATE_EPOCH": epoch}
    builder = scratch / "builder"
    with timed("environment for building, from requirements-build.lock"):
        run(uv(), "venv", "--quiet", "--python", sys.executable, builder)
        lock = ROOT / "requirements-build.lock"
        run(uv(), "pip", "install", "--quiet", "--require-hashes", "-r", lock, "--python", builder)
    built = []
    for name, more in (
        ("first", {"TZ": "UTC", "PYTHONHASHSEED": "1"}),
        ("second", {"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "2"}),
    ):
        tree = scratch / name / "tree"
        with timed(f"sdist and wheel, {name} build"):
            mask = os.umask(0o022 if name == "first" else 0o077)
            try:
                copy_tree(tree)
                built.append(build(tree, scratch / name / "dist", builder / "bin/python", {**env, **more}))
            finally:
                os.umask(mask)
    for what, file in built[0].items():
        digests = [hashlib.sha256(each[what].read_bytes()).hexdigest() for each in built]
        if digests[0] != digests[1] or file.name != built[1][what].name:
            raise PackageError(f"two builds of the {what} differ: {digests[0]}, {digests[1]}")
        print(f"  {file.name:<40}{file.stat().st_size:>10,} bytes  sha256 {digests[0]}")
    return built[0]


def install(python: str, wheel: Path, folder: Path) -> Path:
    """Make an environment with the pinned dependencies and the wheel, and nothing else."""
    run(uv(), "venv", "--quiet", "--python", python, folder)
    program = folder / "bin/python"
    lock = ROOT / "requirements.lock"
    run(uv(), "pip", "install", "--quiet", "--require-hashes", "-r", lock, "--python", program)
    run(uv(), "pip", "install", "--quiet", "--offline", "--no-deps", wheel, "--python", program)
    run(uv(), "pip", "check", "--quiet", "--python", program)
    return folder / "bin"


def smoke(folder: Path, scratch: Path, builder: Path) -> None:
    """Use what was installed as its users do, far from the checkout."""
    kuberth = folder / "kuberth"
    facts = json.loads(run(kuberth, "version", "-o", "json", cwd=scratch))
    if not facts["commit"] or not all(facts["dependencies"].values()):
        raise PackageError(f"kuberth version lacks facts: {facts}")
    if "Commands:" not in run(kuberth, "--help", cwd=scratch):
        raise PackageError("kuberth --help lists no commands")
    for shell in ("bash", "zsh", "fish"):
        run(kuberth, "completion", shell, cwd=scratch)
    with timed(f"kuberth up until ready and to its end, {facts['python']}"):
        up(kuberth, scratch)
    with timed("kuberth plugin new, install, check"):
        run(kuberth, "plugin", "new", "Smoke", cwd=scratch)
        own = scratch / "smoke"
        run(uv(), "build", "--quiet", "--wheel", "--no-build-isolation", "--python", builder, cwd=own)
        [wheel] = (own / "dist").glob("*.whl")
        run(uv(), "pip", "install", "--quiet", "--offline", "--no-deps", wheel, "--python", folder / "python")
        if "Smoke" not in run(kuberth, "plugin", "list", "Smoke", cwd=scratch):
            raise PackageError("the installed plugin is not listed")
        run(kuberth, "plugin", "check", "smoke:Smoke", "--clusters", "5", cwd=scratch)


def walk(wheel: Path, python: str, scratch: Path) -> None:
    """From the wheel to a pod that runs, by the commands of docs/install.md, as a stranger types them."""
    kubectl = find_kubectl()
    if kubectl is None:
        print("  no kubectl on this machine: the way from the wheel to a pod was not tried")
        return
    first, second = commands("install.md", "In one minute")
    install, start = first[:-1], first[-1]
    home = scratch / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python3").symlink_to(python)
    env = {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(home / "bin"), str(kubectl.parent), os.environ["PATH"]]),
    }
    began = time.monotonic()
    # The page's checkout is the wheel, and its ports may be taken here.
    lines = [line.replace("pip install .", f"pip install --quiet {wheel}") for line in install]
    bash("\n".join(lines), home, env)
    activate = lines[1]
    with cluster(f"{activate}\nexec {start} --port 0 --page-port 0", home, env):
        seen = bash("\n".join([activate, *second]), home, env)
    seconds = time.monotonic() - began
    if "node-1" not in seen or "pod/hello condition met" not in seen:
        raise PackageError(f"the pod of docs/install.md does not run:\n{seen}")
    print(f"  from the wheel to a pod that runs: {len(first) + len(second)} commands, {seconds:.1f} s")


def bash(script: str, home: Path, env: Mapping[str, str]) -> str:
    return run("bash", "-e", "-c", script, cwd=home, env=env)


def find_kubectl() -> Path | None:
    """The one on the path, or the one that `make envtest` built."""
    built = sorted((Path.home() / ".cache/kuberth/envtest").glob("*/kubectl"))
    found = shutil.which("kubectl") or next(map(str, built), None)
    return None if found is None else Path(found)


def up(kuberth: Path, scratch: Path) -> None:
    """Start a cluster, wait until it is ready, and end it as Ctrl-C does."""
    flags = f"--memory --nodes 2 --port 0 --page-port 0 --kubeconfig-out {scratch / 'kubeconfig'}"
    with cluster(f"exec {kuberth} up {flags}", scratch, {}):
        pass


@contextmanager
def cluster(script: str, scratch: Path, env: Mapping[str, str]) -> Iterator[None]:
    """`kuberth up`, ready, until the block ends."""
    log = scratch / "up.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            ["bash", "-e", "-c", script], cwd=scratch, env={**os.environ, **env}, stdout=output, stderr=output
        )
    try:
        end = time.monotonic() + READY_WITHIN
        while "Ready." not in log.read_text():
            if process.poll() is not None or time.monotonic() > end:
                raise PackageError(f"kuberth up is not ready:\n{log.read_text()}")
            time.sleep(0.05)
        yield
        process.send_signal(signal.SIGINT)
        if process.wait(READY_WITHIN):
            raise PackageError(f"kuberth up ended with {process.returncode}:\n{log.read_text()}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def find_python(version: str) -> str | None:
    """The interpreter of a version, if this machine has one; none is downloaded."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [f"python{version}", *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]
    for program in filter(None, (shutil.which(each) for each in candidates)):
        asked = [program, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60)
        if done.stdout.strip() == version:
            return program
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="hack.dist", description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", help="A version to try the wheel with; repeatable.")
    chosen = parser.parse_args(arguments)
    start = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="kuberth-dist-") as name:
            scratch = Path(name)
            packages = build_twice(scratch)
            with zipfile.ZipFile(packages["wheel"]) as archive:
                check_wheel(archive.namelist(), packages["wheel"].stat().st_size)
            with tarfile.open(packages["sdist"]) as unpacked:
                check_sdist(unpacked.getnames())
            walked = False
            for version in chosen.python or PYTHONS:
                python = find_python(version)
                if python is None:
                    print(f"  Python {version}: none on this machine; the wheel was not tried with it")
                    if chosen.python:
                        raise PackageError(f"there is no Python {version}")
                    continue
                folder = scratch / f"python{version}"
                folder.mkdir()
                with timed(f"Python {version}: clean environment"):
                    programs = install(python, packages["wheel"], folder / "environment")
                smoke(programs, folder, scratch / "builder/bin/python")
                if not walked:
                    walk(packages["wheel"], python, folder)
                    walked = True
            (ROOT / "dist").mkdir(exist_ok=True)
            for file in (ROOT / "dist").glob("kuberth-*"):
                file.unlink()
            for package in packages.values():
                shutil.copy(package, ROOT / "dist")
            version = packages["wheel"].name.split("-")[1]
            lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
            (ROOT / "dist" / f"kuberth-{version}.cdx.json").write_text(sbom(version, lock), encoding="utf-8")
    except PackageError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(f"  dist/ holds both packages and the bill of materials; {time.monotonic() - start:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
