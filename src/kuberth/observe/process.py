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
from collections.abc import Mapping
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
    labels = {"version": platform.python_version(), "implementation": platform.python_implementation()}
    labels |= zip(("major", "minor", "patchlevel"), map(str, sys.version_info[:3]), strict=True)
    return [cpu, _gauge("python_info", "Python platform information", 1, labels), *_proc_families()]


def _gauge(
    name: str, text: str, value: float, labels: Mapping[str, str] | None = None, *, stability: str = ""
) -> Gauge:
    """A gauge with one value."""
    labels = labels or {}
    gauge = Gauge(name, text, tuple(labels), stability=stability)
    gauge.set(tuple(labels.values()), value)
    return gauge


def _proc_families() -> list[Family]:
    try:
        # The command's name, in brackets, may contain spaces; what follows is separated by single ones.
        fields = (_PROC / "self/stat").read_text().rpartition(")")[2].split()
        booted = next(line for line in (_PROC / "stat").read_text().splitlines() if line.startswith("btime "))
        open_files = len(os.listdir(_PROC / "self/fd"))
    except (OSError, StopIteration):
        return []
    resident = float(fields[21]) * resource.getpagesize()
    started = float(booted.split()[1]) + float(fields[19]) / os.sysconf("SC_CLK_TCK")
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return [
        _gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", float(fields[20])),
        _gauge("process_resident_memory_bytes", "Resident memory size in bytes.", resident),
        _gauge(
            "process_start_time_seconds", "Start time of the process since unix epoch in seconds.", started
        ),
        _gauge("process_open_fds", "Number of open file descriptors.", open_files),
        _gauge("process_max_fds", "Maximum number of open file descriptors.", most_files),
    ]


def task_families() -> list[Family]:
    """The number of unfinished tasks of the running event loop; 0 without one."""
    try:
        tasks = len(asyncio.all_tasks())
    except RuntimeError:  # no event loop runs here
        tasks = 0
    help_text = "Number of unfinished tasks of the event loop."
    return [_gauge("kuberth_asyncio_tasks", help_text, tasks, stability=ALPHA)]


def build_families() -> list[Family]:
    """Versions of Kuberth and of the Python that runs it, under upstream's names: go_version is Python's."""
    major, minor = kuberth.KUBERNETES_VERSION.split(".")
    build = {
        "major": major,
        "minor": minor,
        "git_version": f"v{kuberth.KUBERNETES_VERSION}.0+kuberth.{kuberth.__version__}",
        "git_commit": "",
        "git_tree_state": "",
        "build_date": "",
        "go_version": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": (f"{platform.system().lower()}/{_MACHINES.get(platform.machine(), platform.machine())}"),
    }
    version = {
        "binary": kuberth.__version__,
        "component": "kube",
        "emulation": kuberth.KUBERNETES_VERSION,
        "min_compat": f"{major}.{int(minor) - 1}",
    }
    return [
        _gauge(
            "kubernetes_build_info",
            "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree "
            "state, build date, Go version, and compiler from which Kubernetes was built, and platform on "
            "which it is running.",
            1,
            build,
            stability=BETA,
        ),
        _gauge(
            "version_info",
            "Provides the compatibility version info of the component. The component label is the name of "
            "the component, usually kube, but is relevant for aggregated-apiservers.",
            1,
            version,
            stability=ALPHA,
        ),
    ]
