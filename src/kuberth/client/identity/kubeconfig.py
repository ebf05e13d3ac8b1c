"""Builds the `ClientConfig` from kubeconfig files, a flag or the service account, by client-go's rules.

In: a path, $KUBECONFIG, ~/.kube/config or the service account; a context; an overriding server address. Out:
a `ClientConfig`, or a `ConfigError` that names the file, the entry and the fix.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kuberth.client.identity.client_config import (
    EXEC_API_VERSIONS,
    ClientConfig,
    ExecPlugin,
    Impersonation,
    Secret,
    TlsSettings,
    bracketed,
    parse_server,
)
from kuberth.client.identity.kubeconfig_files import (
    Cluster,
    Context,
    Exec,
    Kubeconfig,
    KubeconfigEntry,
    UserEntry,
    read_kubeconfigs,
)
from kuberth.client.identity.proxies import parse_proxy, proxy_from_environment
from kuberth.errors import ConfigError

_INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")


SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load_client_config(
    *, kubeconfig: str | None = None, context: str | None = None, master: str | None = None
) -> ClientConfig:
    """Load an explicit file, else $KUBECONFIG, else ~/.kube/config, else the pod's service account.

    `master` overrides the server's address; on its own it is a server without credentials.
    """
    if kubeconfig:
        merged = read_kubeconfigs([os.path.expanduser(kubeconfig)], required=True)
        looked_in = kubeconfig
    else:
        paths = _default_paths()
        merged = read_kubeconfigs(paths)
        looked_in = ", ".join(paths)
    if not (merged.clusters or merged.contexts or merged.users):
        if context:
            raise ConfigError(f"context {context!r} is not defined: {looked_in} has no contexts")
        if kubeconfig and not master:
            raise ConfigError(f"kubeconfig {kubeconfig}: has no clusters; is this the right file?")
        if not kubeconfig and runs_in_cluster():
            return in_cluster_config(master=master)
        if not master:
            raise ConfigError(
                f"no cluster to connect to: there is no kubeconfig ({looked_in}), and this is not a pod in a "
                "cluster; give --kubeconfig or set KUBECONFIG"
            )
    return _Resolver(merged, master or "").resolve(context or "")


def _default_paths() -> list[str]:
    named = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    # A file that is listed twice counts once.
    return list(dict.fromkeys(named)) or [str(Path("~/.kube/config").expanduser())]


class _Resolver:
    """Resolves a context to its cluster and user, and checks both."""

    def __init__(self, merged: Kubeconfig, master: str) -> None:
        self._merged = merged
        self._master = master

    def resolve(self, wanted: str) -> ClientConfig:
        name = wanted or self._merged.current_context
        context = self._context(name)
        cluster = self._cluster(context)
        user = self._user(context)
        source = f"kubeconfig {self._merged.where}" if self._merged.files else "--master"
        if name:
            source += f" (context {name!r})"
        server = self._master or cluster.server
        if not server:
            raise self._wrong(cluster, "has no server; write server: https://host:port")
        address = parse_server(server, where=source)
        where = f"kubeconfig {cluster.origin}: cluster {context.cluster!r}: proxy-url"
        proxy = (
            parse_proxy(cluster.proxy_url, where=where)
            if cluster.proxy_url
            else proxy_from_environment(address, os.environ)
        )
        config = ClientConfig(
            server=str(address),
            source=source,
            namespace=context.namespace or "default",
            proxy=proxy,
            impersonation=self._impersonation(user),
        )
        if not address.secure:
            # Credentials are never sent without TLS: client-go's rule.
            return config
        return self._with_credentials(config, cluster, user)

    def _with_credentials(self, config: ClientConfig, cluster: Cluster, user: UserEntry) -> ClientConfig:
        if user.auth_provider is not None:
            kind = f"auth-provider {user.auth_provider.name or 'unnamed'!r}"
            raise self._wrong(user, f"{kind} is not supported (Kubernetes dropped these); use an exec plugin")
        if user.token and (user.username or user.password):
            raise self._wrong(user, "has both a token and a username or password; keep one")
        tls = self._tls(cluster, user)
        token_file = user.resolved(user.token_file)
        if token_file and not user.token:
            self._readable(user, "tokenFile", token_file)
        plugin = None
        if user.exec_ is not None:
            plugin = self._exec_plugin(user, user.exec_, config, cluster, tls)
            if user.token or user.token_file or user.username or tls.has_client_certificate:
                plugin = None  # explicit credentials take precedence
        return replace(
            config,
            tls=tls,
            token=Secret(user.token) if user.token else None,
            token_file=token_file,
            username=user.username,
            password=Secret(user.password) if user.password else None,
            exec_plugin=plugin,
        )

    # The three entries

    def _context(self, name: str) -> Context:
        if name:
            found = self._merged.contexts.get(name)
            if found is not None:
                return found
            known = ", ".join(sorted(self._merged.contexts)) or "none"
            raise ConfigError(
                f"kubeconfig {self._merged.where}: there is no context {name!r} (known: {known}); "
                "set current-context or choose another context"
            )
        if self._master:
            return Context()
        raise ConfigError(
            f"kubeconfig {self._merged.where}: no current-context is set; "
            "run kubectl config use-context, or choose a context"
        )

    def _cluster(self, context: Context) -> Cluster:
        found = self._merged.clusters.get(context.cluster)
        if found is not None:
            return found
        if self._master:
            return Cluster()
        raise self._missing(context, "cluster", context.cluster, self._merged.clusters)

    def _user(self, context: Context) -> UserEntry:
        found = self._merged.users.get(context.user)
        if found is not None:
            return found
        if not context.user:
            return UserEntry()  # anonymous
        raise self._missing(context, "user", context.user, self._merged.users)

    def _missing(self, context: Context, what: str, name: str, known: Mapping[str, Any]) -> ConfigError:
        problem = f"names no {what}" if not name else f"names {what} {name!r}, which is not there"
        names = ", ".join(sorted(known)) or "none"
        message = f"{problem} (known: {names}); fix the context or add the {what}"
        return self._wrong(context, message)

    # Their parts

    def _tls(self, cluster: Cluster, user: UserEntry) -> TlsSettings:
        ca_data = self._decoded(cluster, "certificate-authority-data", cluster.certificate_authority_data)
        ca_file = "" if ca_data else cluster.resolved(cluster.certificate_authority)
        if ca_file:
            self._readable(cluster, "certificate-authority", ca_file)
        if cluster.insecure_skip_tls_verify and (ca_data or ca_file):
            problem = "has insecure-skip-tls-verify and a certificate authority; remove one of them"
            raise self._wrong(cluster, problem)
        certificate, key = user.client_certificate_data, user.client_key_data
        certificate_file = "" if certificate else user.resolved(user.client_certificate)
        key_file = "" if key else user.resolved(user.client_key)
        has_certificate, has_key = bool(certificate or certificate_file), bool(key or key_file)
        if has_certificate != has_key:
            missing = "client-key or client-key-data" if has_certificate else "client-certificate(-data)"
            raise self._wrong(user, f"has only half of a client certificate; add {missing}")
        if certificate_file:
            self._readable(user, "client-certificate", certificate_file)
        if key_file:
            self._readable(user, "client-key", key_file)
        key_data = self._decoded(user, "client-key-data", key)
        return TlsSettings(
            ca_data=ca_data,
            ca_file=ca_file,
            # The name in the file rarely matches the certificate of another server.
            server_name="" if self._master else cluster.tls_server_name,
            insecure=cluster.insecure_skip_tls_verify,
            certificate_data=self._decoded(user, "client-certificate-data", certificate),
            certificate_file=certificate_file,
            key_data=Secret(key_data) if key_data else None,
            key_file=key_file,
        )

    def _exec_plugin(
        self, user: UserEntry, given: Exec, config: ClientConfig, cluster: Cluster, tls: TlsSettings
    ) -> ExecPlugin:
        if not given.command:
            raise self._wrong(user, "exec has no command; name the program to run")
        if given.api_version not in EXEC_API_VERSIONS:
            known = " or ".join(EXEC_API_VERSIONS)
            raise self._wrong(user, f"exec.apiVersion {given.api_version!r} is unknown; use {known}")
        if any(not each.name for each in given.env):
            raise self._wrong(user, "exec.env has an entry without a name")
        mode = given.interactive_mode or ("" if given.api_version.endswith("/v1") else "IfAvailable")
        if mode not in _INTERACTIVE_MODES:
            raise self._wrong(user, f"exec.interactiveMode must be one of {', '.join(_INTERACTIVE_MODES)}")
        return ExecPlugin(
            # A bare name is looked up on PATH; a relative path starts at the file.
            command=user.resolved(given.command) if os.sep in given.command else given.command,
            api_version=given.api_version,
            args=given.args,
            env={each.name: each.value for each in given.env},
            install_hint=given.install_hint,
            interactive_mode=mode,
            cluster_info=_cluster_info(config, cluster, tls) if given.provide_cluster_info else None,
        )

    def _impersonation(self, user: UserEntry) -> Impersonation | None:
        if not user.as_user:
            if user.as_uid or user.as_groups or user.as_user_extra:
                raise self._wrong(user, "has as-uid, as-groups or as-user-extra without as; add as")
            return None
        return Impersonation(
            user=user.as_user, uid=user.as_uid, groups=user.as_groups, extra=user.as_user_extra
        )

    def _decoded(self, entry: KubeconfigEntry, field: str, data: str) -> str:
        if not data:
            return ""
        try:
            return base64.b64decode("".join(data.split()), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            problem = f"{field} is not base64 of a PEM text; encode the file with base64 -w0"
            raise self._wrong(entry, problem) from None

    def _readable(self, entry: KubeconfigEntry, field: str, path: str) -> None:
        try:
            with open(path, "rb"):
                return
        except OSError as error:
            problem = f"{field} {path} cannot be read: {error.strerror}; check the path"
            raise self._wrong(entry, problem) from error

    def _wrong(self, entry: KubeconfigEntry, problem: str) -> ConfigError:
        where = f"kubeconfig {entry.origin or self._merged.where}: {entry.what} {entry.name!r}"
        return ConfigError(f"{where}: {problem}")


def _cluster_info(config: ClientConfig, cluster: Cluster, tls: TlsSettings) -> dict[str, Any]:
    """The cluster's data for an exec plugin; the CA always as data."""
    ca = tls.ca_data.encode() or (Path(tls.ca_file).read_bytes() if tls.ca_file else b"")
    fields = {
        "server": config.server,
        "tls-server-name": tls.server_name,
        "insecure-skip-tls-verify": tls.insecure,
        "certificate-authority-data": base64.b64encode(ca).decode(),
        "proxy-url": cluster.proxy_url,
        "config": cluster.exec_extension,
    }
    return {key: value for key, value in fields.items() if value}


def runs_in_cluster() -> bool:
    """Whether this process runs in a pod with a service account."""
    host, port = _in_cluster_address()
    return bool(host and port and (SERVICE_ACCOUNT / "token").is_file())


def _in_cluster_address() -> tuple[str, str]:
    """Host and port of the API server, which the kubelet gives every pod in its environment."""
    return os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")


def in_cluster_config(*, master: str | None = None) -> ClientConfig:
    """The server and the identity of the pod in which this process runs."""
    host, port = _in_cluster_address()
    if not host or not port:
        raise ConfigError(
            "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; "
            "give --kubeconfig when running outside of a pod"
        )
    token, ca = SERVICE_ACCOUNT / "token", SERVICE_ACCOUNT / "ca.crt"
    for path in (token, ca):
        try:
            path.open("rb").close()
        except OSError as error:
            raise ConfigError(
                f"in-cluster: {path} cannot be read: {error.strerror}; "
                "set automountServiceAccountToken: true for the pod, or give --kubeconfig"
            ) from error
    source = f"the service account in {SERVICE_ACCOUNT}"
    address = parse_server(master or f"https://{bracketed(host)}:{port}", where=source)
    return ClientConfig(
        server=str(address),
        source=source,
        namespace=_in_cluster_namespace(),
        tls=TlsSettings(ca_file=str(ca)) if address.secure else TlsSettings(),
        proxy=proxy_from_environment(address, os.environ),
        token_file=str(token) if address.secure else "",
    )


def _in_cluster_namespace() -> str:
    if named := os.environ.get("POD_NAMESPACE"):
        return named
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"
