"""A real etcd and a real kube-apiserver on loopback, for as long as the tests need them.

In: the programs and a folder. Out: a server URL, kubeconfigs for its users, the API server's audit log,
and the faults that only the control plane itself can have: killed, restarted, compacted.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.api_client import ApiClient, RefusedError
from tests.e2e.assets import Assets
from tests.e2e.audit import POLICY, AuditLog
from tests.e2e.certificates import AuthorityFolder, ServiceAccountSigner
from tests.e2e.kubeconfigs import write_kubeconfig
from tests.e2e.processes import Process
from tests.e2e.waiting import wait_for

ISSUER = "https://kubernetes.default.svc"
ADMIN = "admin"
UPSTREAM = "system:kube-scheduler"


def service_account(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


SECOND_SCHEDULER = service_account("kuberth-system", "kuberth")
"""The user of deploy/second-scheduler."""
REPLACEMENT = service_account("kube-system", "kuberth-default")
"""The user of deploy/replace."""
CHART = service_account("chart-system", "chart")
"""The user of deploy/chart/kuberth, of the release that the tests install."""
BARE = service_account("bare", "bare")
"""A service account without permissions."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ControlPlane:
    """etcd and kube-apiserver. `start()` returns when the server is ready; `stop()` leaves nothing behind."""

    def __init__(
        self, folder: Path, assets: Assets, *, audit: bool = True, flags: Sequence[str] = ()
    ) -> None:
        """`flags` are further ones for the API server."""
        self.folder = folder
        self.assets = assets
        self.authority = AuthorityFolder(folder / "pki")
        self.signer = ServiceAccountSigner(folder / "service-account.key")
        self.audit = AuditLog(folder / "audit.log")
        self._audit = audit
        self._flags = tuple(flags)
        self._certificate = self.authority.issue("127.0.0.1")
        self._policy = folder / "audit-policy.json"
        self._policy.write_text(json.dumps(POLICY), encoding="utf-8")
        self._tokens = folder / "tokens.csv"
        self._tokens.write_text(_token_lines(), encoding="utf-8")
        self._etcd: Process | None = None
        self._api_server: Process | None = None
        self._etcd_port = self._port = 0

    # Life

    def start(self) -> None:
        for last_try in (False, False, True):
            try:
                self.start_etcd()
                self.start_api_server(port=free_port())
                return
            except AssertionError:
                # A free port may have been taken between choosing and using it.
                self.stop()
                if last_try:
                    raise

    def stop(self) -> None:
        # Their data is thrown away with the folder: there is nothing to flush.
        for process in (self._api_server, self._etcd):
            if process is not None:
                process.kill()
        self._api_server = self._etcd = None
        self._etcd_port = 0

    def start_etcd(self) -> None:
        """Start it, or start it again where it was."""
        self._etcd_port = self._etcd_port or free_port()
        url = f"http://127.0.0.1:{self._etcd_port}"
        command = [
            str(self.assets.etcd),
            f"--data-dir={self.folder}/etcd-{self._etcd_port}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls=http://127.0.0.1:{free_port()}",
            "--log-level=warn",
            "--unsafe-no-fsync",
            f"--quota-backend-bytes={4 << 30}",
        ]
        self._etcd = Process("etcd", command, log=self.folder / "etcd.log")
        self._wait_for("etcd", self._etcd, self._etcd_healthy, seconds=30)

    def start_api_server(self, *, port: int | None = None) -> None:
        """Start it, or start it again where it was."""
        self._port = self._port if port is None else port
        command = [
            str(self.assets.kube_apiserver),
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder}/api-server",
            f"--tls-cert-file={self._certificate.certificate}",
            f"--tls-private-key-file={self._certificate.key}",
            f"--client-ca-file={self.authority.file}",
            f"--requestheader-client-ca-file={self.authority.file}",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={self.signer.file}",
            f"--service-account-signing-key-file={self.signer.file}",
            f"--token-auth-file={self._tokens}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--endpoint-reconciler-type=none",
            "--profiling=false",
            *self._flags,
        ]
        if self._audit:
            command += [f"--audit-policy-file={self._policy}", f"--audit-log-path={self.audit.file}"]
        start = self.audit.mark()
        self._api_server = Process("kube-apiserver", command, log=self.folder / "kube-apiserver.log")
        self._wait_for("kube-apiserver", self._api_server, self._ready, seconds=90)
        self.audit.starting.append((start, self.audit.mark()))

    def _wait_for(self, name: str, process: Process, probe: Any, *, seconds: float) -> None:
        def ended_or_ready() -> bool:
            assert process.alive, f"{name} ended with {process.returncode}; {process.tail()}"
            return bool(probe())

        wait_for(f"{name} to be ready", ended_or_ready, seconds=seconds, every=0.1, explain=process.tail)

    def _etcd_healthy(self) -> bool:
        try:
            return self._ask_etcd("/v3/maintenance/status")["header"]["revision"] is not None
        except (OSError, http.client.HTTPException, KeyError):
            return False

    def _ready(self) -> bool:
        client = self.client()
        try:
            client.request("GET", "/readyz")
        except (OSError, http.client.HTTPException, RefusedError):
            return False
        finally:
            client.close()
        return True

    # Faults

    def kill_api_server(self) -> None:
        """As a crash would: no goodbye to anyone."""
        assert self._api_server is not None
        self._api_server.kill()
        self._api_server = None

    def kill_etcd(self) -> None:
        assert self._etcd is not None
        self._etcd.kill()
        self._etcd = None

    def compact(self) -> None:
        """Compact etcd's history up to now, so that watches that stayed behind must list again."""
        revision = int(self._ask_etcd("/v3/maintenance/status")["header"]["revision"])
        self._ask_etcd("/v3/kv/compaction", {"revision": str(revision), "physical": True})

    def _ask_etcd(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._etcd_port, timeout=10)
        try:
            connection.request("POST", path, json.dumps(body or {}))
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
            assert response.status == 200, f"etcd {path}: {response.status} {answer}"
            return answer
        finally:
            connection.close()

    # Users

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    def client(self, user: str = ADMIN) -> ApiClient:
        return ApiClient(self.server, token=token_of(user), ca_file=self.authority.file)

    def kubeconfig(self, user: str, *, server: str | None = None, ca_file: Path | None = None) -> Path:
        """A file for this user, of this server or of something that stands before it."""
        server = server or self.server
        port = urlsplit(server).port
        return write_kubeconfig(
            self.folder / f"{user.replace(':', '-')}-{port}.kubeconfig",
            server=server,
            ca_file=ca_file or self.authority.file,
            token=token_of(user),
        )

    def expired_token(self, namespace: str, name: str) -> str:
        """A service account's token, properly signed by the API server's key, that ran out an hour ago."""
        now = int(time.time())
        return self.signer.sign(
            {
                "iss": ISSUER,
                "aud": [ISSUER],
                "sub": service_account(namespace, name),
                "iat": now - 7200,
                "nbf": now - 7200,
                "exp": now - 3600,
                "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": "0"}},
            }
        )

    def kubectl(self, *arguments: str, input_text: str | None = None, check: bool = True) -> str:
        """What kubectl, as admin, prints."""
        command = [str(self.assets.kubectl), f"--kubeconfig={self.kubeconfig(ADMIN)}", *arguments]
        done = subprocess.run(
            command,
            input=input_text,
            capture_output=True,
            text=True,
            timeout=120,
            env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"},
        )
        assert not check or done.returncode == 0, (
            f"kubectl {' '.join(arguments)}: {done.stderr or done.stdout}"
        )
        return done.stdout


def token_of(user: str) -> str:
    return f"e2e-token-{user.replace(':', '-')}"


def _token_lines() -> str:
    lines = [
        f'{token_of(ADMIN)},{ADMIN},{ADMIN},"system:masters"',
        f"{token_of(UPSTREAM)},{UPSTREAM},upstream",
    ]
    for user in (SECOND_SCHEDULER, REPLACEMENT, CHART, BARE):
        namespace = user.split(":")[2]
        groups = f"system:serviceaccounts,system:serviceaccounts:{namespace}"
        lines.append(f'{token_of(user)},{user},{user},"{groups}"')
    return "\n".join(lines) + "\n"
