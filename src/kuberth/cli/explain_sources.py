"""Runs `kuberth explain`: asks a running Kuberth, or evaluates the pod in a cluster (read-only) or in files.

In: the flags of the command line. Out: an explanation as text or JSON.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import click
from rich.console import Console

from kuberth.api.core import Pod
from kuberth.cli.context import Extras, build_registry, configuration
from kuberth.cli.explain_display import print_explanation
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import ClientConfig, TlsSettings
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.clock import run_on_fastest_loop
from kuberth.config import FeatureGates, KubeSchedulerConfiguration
from kuberth.config.feature_gates import parse_settings
from kuberth.errors import ApiError, ConfigError, KuberthError
from kuberth.evaluation import Evaluator
from kuberth.explaining import Question, explain
from kuberth.explaining.explanation import API_VERSION, KIND, to_tree
from kuberth.explaining.page import PATH
from kuberth.explaining.sources import (
    WorkloadPod,
    find_in_dump,
    read_cluster,
    read_dump,
    read_pod,
    read_template,
    with_claims,
    with_priority,
)
from kuberth.explaining.targets import UNKNOWN_POD, ExplainTarget, find_pod, read_target
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


def run_explain(extras: Extras, flags: Mapping[str, Any]) -> None:
    inquiry = _inquiry(extras, flags)
    # The process ends after one answer, and a cluster has no reference cycles: garbage collection is not
    # needed.
    gc.disable()
    try:
        tree = answer_tree(inquiry)
        if flags["output"] == "json":
            click.echo(json.dumps(tree, indent=2, ensure_ascii=False))
        else:
            console = Console(highlight=False, markup=False, emoji=False)
            print_explanation(tree, console, names=flags["names"], now=time.time())
    finally:
        gc.enable()


def _inquiry(extras: Extras, flags: Mapping[str, Any]) -> Inquiry:
    if bool(flags["target"]) == (flags["filename"] is not None):
        raise click.UsageError("give either a TARGET such as `pod NAME`, or -f FILE")
    if flags["server"] and (flags["filename"] or flags["dump"] or flags["dry_run"] or flags["config_path"]):
        raise click.UsageError("--server explains only pods that it knows, with its own configuration")
    registry = build_registry(extras, flags["plugin_references"])
    gates = parse_settings(flags["feature_gates"])
    path: Path | None = flags["config_path"]
    return Inquiry(
        read_target(flags["target"]) if flags["target"] else None,
        config=None if path is None else configuration(path, registry, gates),
        registry=registry,
        feature_gates=FeatureGates(gates),
        flags={**flags, "dry_run": flags["dry_run"] or path is not None},
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
