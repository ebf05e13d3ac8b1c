"""The API server of a run, created for one run and removed after it.

`inproc`: the embedded server's core in this process; no network. `up`: the embedded server as
a process of its own, over HTTPS. `assets`: a real etcd and a real kube-apiserver. All listen on loopback.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import kuberth
from kuberth.bench.processes import ChildProcess, free_port, is_listening, running
from kuberth.bench.servers import BenchServer, RemoteServer, is_ready
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.clock import SystemClock
from kuberth.errors import ConfigError, KuberthError
from kuberth.https.issuing import issue
from kuberth.local.apiserver.http.credentials import ClusterCredentials, kubeconfig
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.running import CONTROLLERS

IN_PROCESS: Final = "inproc"
EMBEDDED: Final = "up"
ASSETS: Final = "assets"

REQUEST_SECONDS: Final = 600.0
"""Deleting ten thousand pods is one request."""
_CONNECTIONS: Final = 40
_TRIES: Final = 3
_NEEDED_CONTROLLERS: Final = frozenset(("persistentvolume",))
"""The controllers of the embedded cluster that a bench needs; the others would only take time."""
_API_VERSIONS: Final = {
    "DynamicResourceAllocation": [f"resource.k8s.io/{each}" for each in ("v1beta2", "v1beta1", "v1alpha3")],
    "GenericWorkload": ["scheduling.k8s.io/v1alpha2"],
}
"""API versions that scheduler_perf has a server serve besides the usual ones, by feature gate."""
_SCHEDULER_GATES: Final = re.compile("Scheduler|OpportunisticBatching|Gang|WorkloadAware")


@dataclass(frozen=True, slots=True)
class Arena:
    """An API server, ready."""

    server: BenchServer
    folder: Path
    """The folder for files of the run."""
    admits_pods: bool = True
    """Whether admission sets a pod's priority and service account, which scheduler_perf's server does not."""
    kubeconfig: Path | None = None
    """The kubeconfig of a server that is reached over HTTPS."""

    @property
    def core(self) -> Core | None:
        """The server, if it runs in this process."""
        return self.server if isinstance(self.server, Core) else None


@asynccontextmanager
async def arena(
    target: str, *, gates: Mapping[str, bool], folder: Path, assets: Path | None
) -> AsyncIterator[Arena]:
    """The API server of this run, while the block lasts."""
    own_gates = {name: on for name, on in gates.items() if not _SCHEDULER_GATES.match(name)}
    made = {IN_PROCESS: _in_process, EMBEDDED: _embedded, ASSETS: _kube_apiserver}[target]
    async with made(own_gates, folder, assets) as ready:
        yield ready


@asynccontextmanager
async def _in_process(gates: Mapping[str, bool], folder: Path, _assets: Path | None) -> AsyncIterator[Arena]:
    store = await RevisionStore.open(None)
    try:
        core = Core(store, clock=SystemClock(), feature_gates=gates)
        yield Arena(core, folder)
    finally:
        await store.close()


@asynccontextmanager
async def _embedded(gates: Mapping[str, bool], folder: Path, _assets: Path | None) -> AsyncIterator[Arena]:
    file = folder / "kubeconfig"
    command = [sys.executable, "-m", "kuberth", "up", "--memory", "--no-scheduler", "--nodes=0", "--port=0"]
    command += [f"--kubeconfig-out={file}", f"--feature-gates={format_gates(gates)}"]
    command += [f"--without={name}" for name in CONTROLLERS if name not in _NEEDED_CONTROLLERS]
    async with running("kuberth-up", command, folder=folder) as program:

        async def written() -> bool:
            return file.exists()

        await program.until_ready(written, seconds=60)
        async with _connected(file, program) as server:
            yield Arena(server, folder, kubeconfig=file)


@asynccontextmanager
async def _kube_apiserver(
    gates: Mapping[str, bool], folder: Path, assets: Path | None
) -> AsyncIterator[Arena]:
    programs = {name: find_program(name, assets) for name in ("etcd", "kube-apiserver")}
    async with AsyncExitStack() as stack:
        for number in range(_TRIES):
            own = folder / f"try-{number}"
            own.mkdir()
            try:
                async with AsyncExitStack() as attempt:
                    server, file = await _start_kube_apiserver(attempt, programs, own, gates)
                    stack.push_async_exit(attempt.pop_all())
                break
            except KuberthError:
                # A port that was free when it was chosen may be taken by now.
                if number == _TRIES - 1:
                    raise
        yield Arena(server, folder, admits_pods=False, kubeconfig=file)


async def _start_kube_apiserver(
    stack: AsyncExitStack, programs: Mapping[str, Path], folder: Path, gates: Mapping[str, bool]
) -> tuple[RemoteServer, Path]:
    credentials = ClusterCredentials.in_memory()
    etcd_port, peer_port, port = free_port(), free_port(), free_port()
    command = _etcd_command(programs["etcd"], folder, etcd_port, peer_port)
    etcd = await stack.enter_async_context(running("etcd", command, folder=folder))
    await etcd.until_ready(partial(is_listening, etcd_port), seconds=60)
    command = _api_server_command(programs["kube-apiserver"], folder, etcd_port, port, credentials, gates)
    program = await stack.enter_async_context(running("kube-apiserver", command, folder=folder))
    file = folder / "kubeconfig"
    file.write_text(kubeconfig(f"https://127.0.0.1:{port}", credentials), encoding="utf-8")
    return await stack.enter_async_context(_connected(file, program)), file


def _etcd_command(program: Path, folder: Path, port: int, peer: int) -> list[str]:
    url = f"http://127.0.0.1:{port}"
    return [
        str(program),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        "--log-level=warn",
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={8 << 30}",
    ]


def _api_server_command(
    program: Path,
    folder: Path,
    etcd: int,
    port: int,
    credentials: ClusterCredentials,
    gates: Mapping[str, bool],
) -> list[str]:
    def written(name: str, content: bytes) -> Path:
        path = folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        return path

    accounts = issue("service-accounts", is_authority=True)
    authority = written("ca.crt", credentials.ca_certificate)
    command = [
        str(program),
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folder / 'certificates'}",
        f"--tls-cert-file={written('server.crt', credentials.server_certificate)}",
        f"--tls-private-key-file={written('server.key', credentials.server_key)}",
        f"--client-ca-file={authority}",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={written('accounts.crt', accounts.certificate_pem)}",
        f"--service-account-signing-key-file={written('accounts.key', accounts.key_pem)}",
        "--authorization-mode=RBAC",
        # As in scheduler_perf: no controller creates service accounts or taints, and pods state a priority.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority",
        "--endpoint-reconciler-type=none",
        "--request-timeout=10m",
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=1500",
    ]
    versions = [version for gate, found in _API_VERSIONS.items() if gates.get(gate) for version in found]
    if versions:
        command.append(f"--runtime-config={','.join(f'{version}=true' for version in versions)}")
    return [*command, f"--feature-gates={format_gates(gates)}"] if gates else command


@asynccontextmanager
async def _connected(file: Path, program: ChildProcess) -> AsyncIterator[RemoteServer]:
    async with HttpApi(
        load_client_config(kubeconfig=str(file)),
        qps=-1,
        max_connections=_CONNECTIONS,
        timeout_seconds=REQUEST_SECONDS,
        list_timeout_seconds=REQUEST_SECONDS,
        user_agent=f"kuberth-bench/{kuberth.__version__}",
    ) as api:
        await program.until_ready(partial(is_ready, api), seconds=90)
        yield RemoteServer(api)


def format_gates(gates: Mapping[str, bool]) -> str:
    return ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())


def find_program(name: str, assets: Path | None) -> Path:
    """Find a program in `assets`, else where envtest, `make envtest` and the system keep programs."""
    folders = [str(assets)] if assets is not None else _asset_folders()
    for folder in folders:
        found = shutil.which(name, path=folder)
        if found:
            return Path(found)
    where = (
        f"not in {assets}" if assets is not None else "neither in KUBEBUILDER_ASSETS, nor built, nor on PATH"
    )
    raise ConfigError(
        f"{name} is {where}; run `make envtest` (it needs Go), or name a folder with --assets DIR"
    )


def _asset_folders() -> list[str]:
    cache = os.environ.get("KUBERTH_ENVTEST_CACHE")
    if not cache:
        cache = f"{os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'}/kuberth/envtest"
    built = sorted(Path(cache).glob("v*"), key=_version, reverse=True)
    found = [os.environ.get("KUBEBUILDER_ASSETS"), *(str(path) for path in built), os.environ.get("PATH")]
    return [folder for folder in found if folder]


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", path.name))


def expect_https(place: Arena, name: str) -> Path:
    """The kubeconfig for a scheduler that is a separate program; KuberthError if the server has none."""
    if place.kubeconfig is None:
        raise KuberthError(
            f"{name} is a program of its own and needs a server to talk to: --target up or assets"
        )
    return place.kubeconfig
