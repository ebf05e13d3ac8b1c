"""The configuration of a client in a pod: the service account's token and CA, the service's address.

In: the environment and the mounted files. Out: a `ClientConfig`, or a `ConfigError` that says what is
missing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kuberth.client.identity.client_config import ClientConfig, TlsSettings, bracketed, parse_server
from kuberth.client.identity.proxies import proxy_from_environment
from kuberth.errors import ConfigError

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def runs_in_cluster(
    *, service_account: Path = SERVICE_ACCOUNT, environment: Mapping[str, str] | None = None
) -> bool:
    """Whether this process runs in a pod with a service account."""
    known = os.environ if environment is None else environment
    return bool(
        known.get("KUBERNETES_SERVICE_HOST")
        and known.get("KUBERNETES_SERVICE_PORT")
        and (service_account / "token").is_file()
    )


def in_cluster_config(
    *,
    master: str | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    environment: Mapping[str, str] | None = None,
) -> ClientConfig:
    known = os.environ if environment is None else environment
    host, port = known.get("KUBERNETES_SERVICE_HOST", ""), known.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError(
            "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; "
            "give --kubeconfig when running outside of a pod"
        )
    token, ca = service_account / "token", service_account / "ca.crt"
    for path in (token, ca):
        try:
            path.open("rb").close()
        except OSError as error:
            raise ConfigError(
                f"in-cluster: {path} cannot be read: {error.strerror}; "
                "set automountServiceAccountToken: true for the pod, or give --kubeconfig"
            ) from error
    source = f"the service account in {service_account}"
    address = parse_server(master or f"https://{bracketed(host)}:{port}", where=source)
    return ClientConfig(
        server=str(address),
        source=source,
        namespace=_namespace(service_account, known),
        tls=TlsSettings(ca_file=str(ca)) if address.secure else TlsSettings(),
        proxy=proxy_from_environment(address, known),
        token_file=str(token) if address.secure else "",
    )


def _namespace(service_account: Path, environment: Mapping[str, str]) -> str:
    if named := environment.get("POD_NAMESPACE"):
        return named
    try:
        return (service_account / "namespace").read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"
