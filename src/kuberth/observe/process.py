"""Figures of this process, under the names that Prometheus' client libraries give them.

Out: memory, CPU time, open files, tasks, start time, and versions. Memory, files and start come from /proc; a
system without it (macOS) shows CPU time, tasks and versions alone.
"""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import sys
import time
from pathlib import Path
from typing import Final

import kuberth
from kuberth.observe.metrics import ALPHA, BETA, Counter, Family, Gauge

_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""Go's names of processors."""
_PROC: Final = Path("/proc")


def process_families() -> list[Family]:
    """CPU time, memory, open files and start time of this process, and its Python."""
    cpu = Counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.")
    cpu.inc((), time.process_time())
    labels = ("version", "implementation", "major", "minor", "patchlevel")
    python = Gauge("python_info", "Python platform information", labels)
    numbers = (str(number) for number in sys.version_info[:3])
    python.set((platform.python_version(), platform.python_implementation(), *numbers), 1)
    return [cpu, python, *_proc_families()]


def _proc_families() -> list[Family]:
    try:
        # The command's name, in brackets, may contain spaces; what follows is separated by single ones.
        fields = (_PROC / "self/stat").read_text().rpartition(")")[2].split()
        booted = next(line for line in (_PROC / "stat").read_text().splitlines() if line.startswith("btime "))
        open_files = len(os.listdir(_PROC / "self/fd"))
    except (OSError, StopIteration):
        return []
    started = float(booted.split()[1]) + float(fields[19]) / os.sysconf("SC_CLK_TCK")
    found: list[Family] = []
    for name, text, value in (
        ("process_virtual_memory_bytes", "Virtual memory size in bytes.", float(fields[20])),
        (
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            float(fields[21]) * resource.getpagesize(),
        ),
        ("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", started),
        ("process_open_fds", "Number of open file descriptors.", open_files),
        (
            "process_max_fds",
            "Maximum number of open file descriptors.",
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        ),
    ):
        gauge = Gauge(name, text)
        gauge.set((), value)
        found.append(gauge)
    return found


def task_families() -> list[Family]:
    """Tasks of the event loop that asks."""
    tasks = Gauge("kuberth_asyncio_tasks", "Number of unfinished tasks of the event loop.", stability=ALPHA)
    try:
        tasks.set((), len(asyncio.all_tasks()))
    except RuntimeError:  # no event loop runs here
        tasks.set((), 0)
    return [tasks]


def build_families() -> list[Family]:
    """Versions of Kuberth and of the Python that runs it, under upstream's names: go_version is Python's."""
    major, minor = kuberth.KUBERNETES_VERSION.split(".")
    build = Gauge(
        "kubernetes_build_info",
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree "
        "state, build date, Go version, and compiler from which Kubernetes was built, and platform on which "
        "it is running.",
        (
            *("major", "minor", "git_version", "git_commit", "git_tree_state", "build_date"),
            *("go_version", "compiler", "platform"),
        ),
        stability=BETA,
    )
    build.set(
        (
            *(major, minor, f"v{kuberth.KUBERNETES_VERSION}.0+kuberth.{kuberth.__version__}", "", "", ""),
            f"python{platform.python_version()}",
            platform.python_implementation().lower(),
            f"{platform.system().lower()}/{_MACHINES.get(platform.machine(), platform.machine())}",
        ),
        1,
    )
    version = Gauge(
        "version_info",
        "Provides the compatibility version info of the component. The component label is the name of the "
        "component, usually kube, but is relevant for aggregated-apiservers.",
        ("binary", "component", "emulation", "min_compat"),
        stability=ALPHA,
    )
    version.set((kuberth.__version__, "kube", kuberth.KUBERNETES_VERSION, f"{major}.{int(minor) - 1}"), 1)
    return [build, version]
