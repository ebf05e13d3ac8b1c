"""Gets the answer of `kuberth explain` from a running Kuberth, from a cluster (read-only), or from files.

In: an `Inquiry` from the command line. Out: the tree of an explanation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from kuberth.api.core import Pod
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import ClientConfig, TlsSettings
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.clock import run_on_fastest_loop
from kuberth.config import FeatureGates, KubeSchedulerConfiguration
from kuberth.errors import ApiError, ConfigError, KuberthError
from kuberth.evaluation import Evaluator
from kuberth.explaining import Question, explain
from kuberth.explaining.new_claims import with_claims
from kuberth.explaining.page import PATH
from kuberth.explaining.sources import (
    WorkloadPod,
    find_in_dump,
    read_cluster,
    read_dump,
    read_pod,
    read_template,
    with_priority,
)
from kuberth.explaining.targets import UNKNOWN_POD, ExplainTarget, find_pod
from kuberth.explaining.trees import API_VERSION, KIND, to_tree
from kuberth.framework.registry import Registry

NO_SUCH_PAGE: Final = (403, 404, 406)
"""Status codes that API servers return for unknown paths."""


class Inquiry(NamedTuple):
    """The target to explain, and how."""

    target: ExplainTarget | None
    """The pod or workload to explain; None: the one in the manifest."""
    config: KubeSchedulerConfiguration | None
    registry: Registry
    feature_gates: FeatureGates
    flags: Mapping[str, Any]
    """The flags of the command line."""

    def question(
        self, pod: Pod, objects: list[Any], *, refusal: str = "", notes: tuple[str, ...] = ()
    ) -> Question:
        pod, around, more = with_claims(with_priority(pod, objects), objects)
        return Question(
            pod,
            around,
            config=self.config,
            registry=self.registry,
            feature_gates=self.feature_gates,
            refusal=refusal,
            notes=(*notes, *more),
        )


def answer_tree(inquiry: Inquiry) -> dict[str, Any]:
    """Get the answer from the best available source."""
    if inquiry.flags["dump"] is not None:
        return to_tree(explain(_from_files(inquiry, inquiry.flags["dump"])))
    client = load_client_config(kubeconfig=inquiry.flags["kubeconfig"], context=inquiry.flags["context"])
    found = run_on_fastest_loop(_ask(inquiry, client))
    return to_tree(explain(found)) if isinstance(found, Question) else found


def _from_files(inquiry: Inquiry, dump: Path) -> Question:
    objects, manifests = read_dump(dump)
    if inquiry.flags["filename"] is not None:
        return inquiry.question(
            read_pod(inquiry.flags["filename"], namespace=inquiry.flags["namespace"]), objects
        )
    assert inquiry.target is not None
    found = find_in_dump(objects, manifests, inquiry.target, inquiry.flags["namespace"] or "default")
    return inquiry.question(found.pod, objects, refusal=found.refusal)


async def _ask(inquiry: Inquiry, client: ClientConfig) -> Question | dict[str, Any]:
    namespace = inquiry.flags["namespace"] or client.namespace
    if inquiry.flags["server"] is not None:
        return await _ask_kuberth(inquiry, serving_at(client, inquiry.flags), namespace)
    async with HttpApi(client) as api:
        if not inquiry.flags["dry_run"] and inquiry.target is not None and inquiry.target.kind == "Pod":
            # `kuberth up` serves the page beside its API; no other server has this path.
            tree = await _page(api, inquiry.target, namespace, guessed=True)
            if tree is not None:
                return tree
        evaluator = Evaluator(
            config=inquiry.config, registry=inquiry.registry, feature_gates=inquiry.feature_gates
        )
        objects, notes = await read_cluster(api, evaluator)
        found = await _template(inquiry, api, objects, namespace)
        return inquiry.question(found.pod, objects, refusal=found.refusal, notes=notes)


async def _template(inquiry: Inquiry, api: HttpApi, objects: list[Any], namespace: str) -> WorkloadPod:
    if inquiry.flags["filename"] is not None:
        return WorkloadPod(
            read_pod(inquiry.flags["filename"], namespace=inquiry.flags["namespace"], otherwise=namespace)
        )
    assert inquiry.target is not None
    if inquiry.target.kind == "Pod":
        return WorkloadPod(find_pod(objects, inquiry.target, namespace))
    return await read_template(api, inquiry.target, namespace)


def serving_at(client: ClientConfig, flags: Mapping[str, Any]) -> ClientConfig:
    """The client configuration with the same credentials for the server of `--server`."""
    authority, insecure = flags["certificate_authority"], flags["insecure"]
    tls: TlsSettings = replace(
        client.tls,
        ca_data="" if authority or insecure else client.tls.ca_data,
        ca_file=authority or ("" if insecure else client.tls.ca_file),
        insecure=insecure,
        server_name="",
    )
    return replace(client, server=flags["server"], peer="Kuberth", source="--server", tls=tls)


async def _ask_kuberth(inquiry: Inquiry, serving: ClientConfig, namespace: str) -> dict[str, Any]:
    if inquiry.target is None or inquiry.target.kind != "Pod":
        raise ConfigError("--server explains only pods; leave it out to explain a workload's template")
    async with HttpApi(serving) as api:
        tree = await _page(api, inquiry.target, namespace)
    if tree is None:
        raise ConfigError(f"{inquiry.flags['server']} has no {PATH}: it is not Kuberth, or another version")
    return tree


async def _page(
    api: HttpApi, target: ExplainTarget, namespace: str, *, guessed: bool = False
) -> dict[str, Any] | None:
    """The answer of a running Kuberth; None if there is none at this address.

    `guessed`: the address may belong to another server, so an error also means that there is none.
    """
    query = urlencode({"pod": target.name, "namespace": namespace})
    try:
        tree = json.loads(await api.call("GET", f"{PATH}?{query}"))
    except ApiError as error:
        if UNKNOWN_POD in str(error):
            raise ConfigError(str(error).partition(": ")[2]) from error
        if error.code in NO_SUCH_PAGE if guessed else error.code == 404:
            return None
        raise
    except ValueError:
        return None
    if not isinstance(tree, dict):
        return None
    if tree.get("kind") == "Status":
        raise KuberthError(str(tree.get("message")))
    return tree if tree.get("kind") == KIND and tree.get("apiVersion") == API_VERSION else None
