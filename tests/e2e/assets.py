"""Where etcd, kube-apiserver, kubectl, kube-scheduler and helm are.

In: `$KUBEBUILDER_ASSETS` (the envtest convention), the cache folder that `make envtest` fills, `PATH`,
in this order and for each program by itself: an envtest bundle has neither of the last two. Out: their paths.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD_SCRIPT = REPOSITORY / "hack" / "envtest" / "build"
NEEDED = ("etcd", "kube-apiserver", "kubectl")
PEER = "kube-scheduler"


@dataclass(frozen=True, slots=True)
class Assets:
    etcd: Path
    kube_apiserver: Path
    kubectl: Path
    kube_scheduler: Path | None
    """Only the peer in a few tests; they skip without it."""
    helm: Path | None
    """For the tests of the chart, which skip without it."""


def cache_folder() -> Path:
    """The folder that hack/envtest/build fills, found by the same rules."""
    version = re.search(r"^version=(\S+)$", BUILD_SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
    assert version is not None, f"{BUILD_SCRIPT} does not say which version it builds"
    root = os.environ.get("KUBERTH_ENVTEST_CACHE")
    if not root:
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        root = f"{cache}/kuberth/envtest"
    return Path(root) / version[1]


def find(program: str) -> Path | None:
    for folder in (os.environ.get("KUBEBUILDER_ASSETS"), str(cache_folder()), os.environ.get("PATH")):
        found = shutil.which(program, path=folder) if folder else None
        if found:
            return Path(found)
    return None


def find_assets() -> Assets | str:
    """The programs, or one line that says which are missing and how to get them."""
    etcd, kube_apiserver, kubectl = (find(program) for program in NEEDED)
    if etcd and kube_apiserver and kubectl:
        return Assets(etcd, kube_apiserver, kubectl, kube_scheduler=find(PEER), helm=find("helm"))
    missing = [program for program in NEEDED if find(program) is None]
    return (
        f"no {', '.join(missing)}: run `make envtest` (needs Go), or set KUBEBUILDER_ASSETS to a folder "
        "that holds them"
    )
