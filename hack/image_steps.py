"""`python -m hack.image_steps`: run the steps of deploy/Dockerfile into a folder; no container runtime.

In: the Dockerfile, the files that its .dockerignore lets through, and this Python in place of the base image.
Out: the folder's size, and a scheduler started from it as the image's user, probed on /livez and /readyz. As
root, where mount namespaces are allowed, its whole file system but /tmp is read-only, as in a pod.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from hack.dist import ROOT, PackageError, run, timed

DOCKERFILE: Final = ROOT / "deploy" / "Dockerfile"
IGNORED: Final = ROOT / "deploy" / "Dockerfile.dockerignore"
LIMIT_MB: Final = 200
READY_WITHIN: Final = 60
"""Seconds until a program that does not get ready is given up."""
_PATH: Final = re.compile(r"(?<![\w./$}*-])/[\w./-]+")
_MOUNT: Final = re.compile(r"--mount=(\S+)\s+")


@dataclass
class Stage:
    """A stage of the Dockerfile: its root folder, and what instructions set."""

    root: Path
    base_mb: float = 0
    directory: str = "/"
    environment: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)

    def real(self, path: str) -> Path:
        """Where a path of the image is on this machine."""
        return self.root / os.path.normpath(os.path.join(self.directory, path)).lstrip("/")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Each instruction and its words, without comments and with joined lines."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, words = line.strip().partition(" ")
            yield name.upper(), words.strip()


def copy_context(target: Path, rules: Sequence[str]) -> None:
    """Copy what a builder would send: nothing, but what a rule with ! names, but what a later one forbids."""
    if not rules or rules[0] != "*":
        raise PackageError(f"{IGNORED.name} has to begin with *, so that no file is sent by accident")
    forbidden = [rule.removeprefix("**/") for rule in rules[1:] if not rule.startswith("!")]

    def skipped(_folder: str, names: list[str]) -> list[str]:
        return [name for name in names if any(fnmatch.fnmatch(name, rule) for rule in forbidden)]

    for rule in rules:
        if rule.startswith("!"):
            source, copied = ROOT / rule[1:], target / rule[1:]
            copied.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copied, ignore=skipped)
            else:
                shutil.copy(source, copied)


def copy_base(target: Path) -> None:
    """This Python as /usr/local, as the base image has it: without its tests, with pip and nothing else."""
    home = Path(sys.base_prefix)
    if home == Path("/usr"):
        raise PackageError(
            "the Python of the system has no folder of its own; use one of pyenv, uv or a CI's setup"
        )
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    unwanted = shutil.ignore_patterns(
        "test", "tests", "__pycache__", "site-packages", "config-*", "idlelib", "*.a"
    )
    local = target / "usr/local"
    shutil.copytree(home / "lib", local / "lib", ignore=unwanted, symlinks=True)
    (local / "bin").mkdir()
    shutil.copy(home / "bin" / name, local / "bin" / name)
    for link in ("python", "python3"):
        (local / "bin" / link).symlink_to(name)
    (local / "lib" / name / "site-packages").mkdir()
    run(local / "bin/python", "-m", "ensurepip", "--default-pip", env=environment(target, {}))


def environment(root: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Variables with which the programs below `root` find each other, and no other Python's parts."""
    local = root / "usr/local"
    return {
        "PATH": f"{local}/bin:/usr/bin:/bin",
        "LD_LIBRARY_PATH": str(local / "lib"),  # a shared libpython of the same name may be the system's
        "PYTHONNOUSERSITE": "1",
        "VIRTUAL_ENV": "",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        **more,
    }


class Image:
    """The stages of a Dockerfile, run one after the other."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.context = scratch / "context"
        self.stages: dict[str, Stage] = {}
        self.stage = Stage(scratch)
        self._arguments: dict[str, str] = {}

    def build(self, text: str, given: Mapping[str, str]) -> Stage:
        for name, words in instructions(text):
            step = getattr(self, f"_{name.lower()}", None)
            if step is None:
                raise PackageError(f"this script has no step for {name} {words}")
            with timed(f"{name} {' '.join(words.split())}"[:56]):
                step(words, given)
        return self.stage

    def _arg(self, words: str, given: Mapping[str, str]) -> None:
        name, _, value = words.partition("=")
        values = self.stage.arguments if self.stages else self._arguments
        values[name] = given.get(name, value)

    def _from(self, words: str, _given: Mapping[str, str]) -> None:
        base, _, name = words.partition(" AS ")
        expected = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
        if not self._filled(base, self._arguments).startswith(expected):
            raise PackageError(f"the image's base is {self._arguments}, this Python is one of {expected}")
        root = self.scratch / (name or "image")
        copy_base(root)
        self.stage = self.stages[name or "image"] = Stage(root, size_mb(root))

    def _workdir(self, words: str, _given: Mapping[str, str]) -> None:
        self.stage.directory = words
        self.stage.real(".").mkdir(parents=True, exist_ok=True)

    def _copy(self, words: str, _given: Mapping[str, str]) -> None:
        *sources, target = [word for word in shlex.split(words) if not word.startswith("--")]
        mode = re.search(r"--chmod=(\d+)", words)
        for source in sources:
            path, place = self.context / source, self.stage.real(target)
            if not path.exists():
                raise PackageError(f"COPY {source}: {IGNORED.name} does not let it through")
            if path.is_dir():
                shutil.copytree(path, place, dirs_exist_ok=True)
                continue
            place = place / path.name if target.endswith("/") else place
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
            place.chmod(int(mode[1], 8) if mode else 0o644)

    def _run(self, words: str, _given: Mapping[str, str]) -> None:
        mounted: dict[str, Path] = {}
        for found in _MOUNT.findall(words):
            options = dict(option.split("=", 1) for option in found.split(","))
            home = self.stages[options["from"]].root if "from" in options else self.context
            mounted[options["target"]] = home / options["source"].lstrip("/")

        def on_this_machine(found: re.Match[str]) -> str:
            return str(mounted.get(found[0]) or self.stage.real(found[0]))

        command = _PATH.sub(on_this_machine, _MOUNT.sub("", words))
        env = environment(self.stage.root, {**self.stage.arguments, **self.stage.environment})
        run("sh", "-euc", command, cwd=self.stage.real("."), env=env)

    def _env(self, words: str, _given: Mapping[str, str]) -> None:
        self.stage.environment |= dict(word.split("=", 1) for word in shlex.split(words))

    def _user(self, words: str, _given: Mapping[str, str]) -> None:
        self.stage.user = words

    def _expose(self, words: str, _given: Mapping[str, str]) -> None:
        if words != "10259":
            raise PackageError(f"EXPOSE {words}: the manifests probe 10259")

    def _entrypoint(self, words: str, _given: Mapping[str, str]) -> None:
        self.stage.entrypoint = json.loads(words)

    @staticmethod
    def _filled(text: str, values: Mapping[str, str]) -> str:
        return re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], text)


def size_mb(folder: Path) -> float:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir()) / 1e6


def confined(stage: Stage) -> tuple[list[str], str]:
    """What starts a program as a pod does, as far as this machine allows, and words for how far that is."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return [], "as this user: only root may take another"
    user, group = stage.user.split(":")
    other = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs"]
    other += ["--bounding-set=-all", "--inh-caps=-all"]
    mounts = 'mount -t tmpfs -o size=16m,mode=1777 tmpfs /tmp && mount -o remount,ro,bind / && exec "$@"'
    apart = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", mounts, "sh"]
    tried = subprocess.run([*apart, "true"], capture_output=True, timeout=60)
    written = subprocess.run([*apart, "touch", str(stage.root / "written")], capture_output=True, timeout=60)
    if tried.returncode or not written.returncode:
        (stage.root / "written").unlink(missing_ok=True)
        return other, f"as user {user}, without capabilities; a read-only root is not allowed here"
    return [*apart, *other], f"as user {user}, without capabilities, on a read-only root with /tmp in memory"


@contextmanager
def running(
    name: str, command: Sequence[str], env: Mapping[str, str], log: Path
) -> Iterator[Callable[[], str]]:
    """A program until the block ends; yields what it printed so far."""
    with log.open("w") as output:
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=output, stderr=output, cwd="/")

    def printed() -> str:
        if process.poll() is not None:
            raise PackageError(f"{name} ended with {process.returncode}:\n{log.read_text()}")
        return log.read_text()

    try:
        yield printed
        process.send_signal(signal.SIGTERM)
        if process.wait(READY_WITHIN) not in (0, 130, 143):
            raise PackageError(f"{name} ended with {process.returncode}:\n{log.read_text()}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def wait_until(what: str, reached: Callable[[], bool], printed: Callable[[], str]) -> None:
    end = time.monotonic() + READY_WITHIN
    while printed() is not None and not reached():
        if time.monotonic() > end:
            raise PackageError(f"{what} did not happen within {READY_WITHIN} s:\n{printed()}")
        time.sleep(0.1)


def answers(port: int, path: str) -> bool:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE  # self-signed, as for a kubelet's probe
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", timeout=5, context=tls) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def try_image(stage: Stage, scratch: Path) -> None:
    """Start the entrypoint beside a local cluster, and probe it as a kubelet does."""
    programs = stage.root / "usr/local/bin"
    env = environment(stage.root, {**stage.environment, "HOME": "/tmp"})
    wrapper, how = confined(stage)
    refused = subprocess.run(
        [*wrapper, "touch", str(programs / "written")], capture_output=True, text=True, timeout=60
    )
    if wrapper and not refused.returncode:
        raise PackageError("the image's user can write into the image")
    version = run(*wrapper, programs / "python", programs / "kube-scheduler", "--version", env=env)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kubeconfig = scratch / "kubeconfig"
    up = [str(programs / "kuberth"), "up", "--memory", "--nodes", "1", "--port", "0", "--no-page"]
    with running("kuberth up", [*up, f"--kubeconfig-out={kubeconfig}"], env, scratch / "up.log") as printed:
        wait_until("Ready.", lambda: "Ready." in printed(), printed)
        kubeconfig.chmod(0o644)
        scheduler = [*wrapper, str(programs / stage.entrypoint[0]), *stage.entrypoint[1:]]
        scheduler += [f"--kubeconfig={kubeconfig}", f"--secure-port={port}", "--leader-elect=false"]
        with (
            timed("the entrypoint until /livez and /readyz, and to its end"),
            running("the entrypoint", scheduler, env, scratch / "run.log") as logged,
        ):
            for path in ("/livez", "/readyz"):
                wait_until(path, partial(answers, port, path), logged)
    print(f"  {version.strip()}, {how}")


def main() -> int:
    try:
        with tempfile.TemporaryDirectory(prefix="kuberth-image-", dir="/var/tmp") as name:
            scratch = Path(name)
            scratch.chmod(0o755)
            rules = IGNORED.read_text(encoding="utf-8").split()
            image = Image(scratch)
            copy_context(image.context, rules)
            commit = run("git", "rev-parse", "HEAD").strip()
            stage = image.build(DOCKERFILE.read_text(encoding="utf-8"), {"COMMIT": commit})
            size = size_mb(stage.root)
            print(f"  {size:.0f} MB unpacked, of which {stage.base_mb:.0f} MB are Python and pip")
            if size >= LIMIT_MB:
                raise PackageError(f"the image has {size:.0f} MB unpacked, the limit is {LIMIT_MB}")
            try_image(stage, scratch)
    except PackageError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
