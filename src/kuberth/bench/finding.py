"""Finds workloads: the shipped ones, those of the Kubernetes sources, or those of a file.

In: names and a label filter. Out: workloads, in the order of their files. The Kubernetes sources are in Go's
module cache, where `make envtest` downloads them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from kuberth.bench.cases import Workload, read_cases
from kuberth.errors import ConfigError
from kuberth.text.field_errors import did_you_mean

SHIPPED: Final = Path(__file__).parent / "workloads"
CONFIG_NAME: Final = "performance-config.yaml"
_SOURCES: Final = Path("test", "integration", "scheduler_perf")
_MODULE: Final = re.compile(r"kubernetes@v(\d+)\.(\d+)\.(\d+)$")


def shipped() -> Sequence[Workload]:
    """The workloads that ship with Kuberth."""
    return [workload for file in sorted(SHIPPED.glob("*.yaml")) for workload in of_file(file)]


def upstream() -> Sequence[Workload]:
    """Kubernetes' own, of the newest version that is there."""
    folder = upstream_folder()
    if folder is None:
        raise ConfigError(
            "Kubernetes' workloads are not on this machine: `make envtest` brings its sources (it needs Go); "
            "or name a file with workloads: kuberth bench FILE"
        )
    return [
        workload
        for file in sorted(folder.rglob(CONFIG_NAME))
        for workload in of_file(file, topic=_topic(file.parent.relative_to(folder)))
    ]


def upstream_folder() -> Path | None:
    """The folder of the newest version's scheduler_perf; None if there is none."""
    versions = []
    for folder in _module_folders():
        for module in folder.glob("kubernetes@v*"):
            version = _MODULE.search(module.name)
            if version is not None and (module / _SOURCES).is_dir():
                versions.append((tuple(int(part) for part in version.groups()), module / _SOURCES))
    return max(versions)[1] if versions else None


def _module_folders() -> Iterator[Path]:
    """Go's module cache."""
    if cache := os.environ.get("GOMODCACHE"):
        yield Path(cache, "k8s.io")
        return
    paths = os.environ.get("GOPATH") or str(Path.home() / "go")
    for path in paths.split(os.pathsep):
        yield Path(path, "pkg", "mod", "k8s.io")


def _topic(folder: Path) -> str:
    """The name under which upstream's tests of a folder look up thresholds."""
    return "_".join(part.replace("_", "") for part in folder.parts)


def of_file(file: Path, *, topic: str = "") -> Sequence[Workload]:
    return [workload for case in read_cases(file, topic=topic) for workload in case.workloads]


def select(workloads: Sequence[Workload], name: str = "", *, labels: str = "") -> Sequence[Workload]:
    """The workloads of a case, or one of them (`Case/Workload`), that the filter of labels lets pass."""
    chosen = list(workloads)
    if name:
        case, _, own = name.partition("/")
        of_case = [workload for workload in workloads if workload.case.name == case]
        if not of_case:
            names = list(dict.fromkeys(workload.case.name for workload in workloads))
            raise ConfigError(
                f"there is no case {case}{did_you_mean(case, names) or _listed(names)}; --list shows all"
            )
        chosen = [workload for workload in of_case if own in ("", workload.name)]
        if not chosen:
            names = [workload.name for workload in of_case]
            raise ConfigError(
                f"the case {case} has no workload {own}{did_you_mean(own, names) or _listed(names)}"
            )
    chosen = [workload for workload in chosen if enabled(labels, workload.labels)]
    if not chosen:
        raise ConfigError(f"no workload passes the filter of labels {labels!r}; --list shows the labels")
    return chosen


def enabled(labels: str, present: Iterable[str]) -> bool:
    """A filter such as `performance,-short`: with a minus or `!` the label must not be there."""
    have = set(present)
    for each in labels.split(","):
        wanted = each.strip()
        if wanted and (wanted.lstrip("+-!") in have) == wanted.startswith(("-", "!")):
            return False
    return True


def _listed(names: Sequence[str]) -> str:
    return f"; there are {', '.join(names[:12])}{' and more' if len(names) > 12 else ''}"
