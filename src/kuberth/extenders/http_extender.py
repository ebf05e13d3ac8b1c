"""Calls an extender: sends HTTP posts and checks the answers.

In: an `Extender` of the configuration. Out: nodes, scores, victims, or an `ExtenderError` with the extender's
name and kube-scheduler's message where it has one. Each call has one deadline, `httpTimeout`, for connecting,
sending and reading; the size of an answer is limited by that of its request.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from kuberth.api.core import Container, Pod
from kuberth.client.connecting.dialing import Dialer
from kuberth.client.connecting.pool import OutgoingRequest, Pool
from kuberth.client.identity.client_config import ClientConfig, Secret, TlsSettings
from kuberth.client.identity.credentials import fixed_or_file
from kuberth.client.identity.proxies import proxy_from_environment
from kuberth.client.rest.request_heads import RequestHeads
from kuberth.clock import Clock
from kuberth.config.types import MAX_NODE_SCORE, Extender, ExtenderTLSConfig
from kuberth.errors import ApiError, ConfigError, ExtenderError, WireError
from kuberth.extenders.messages import (
    ProposedVictims,
    binding_request,
    nodes_request,
    preemption_request,
    read_binding,
    read_filter,
    read_scores,
    read_victims,
)
from kuberth.extenders.whole_objects import WholeObjects

T = TypeVar("T")

MAX_CONNECTIONS: Final = 64
MAX_ANSWER_BYTES: Final = 10 * 1024 * 1024
"""The maximum size of an answer in bytes, beyond twice that of the request, since extenders may return the
nodes they receive."""
MAX_EXTENDER_SCORE: Final = 10
"""Extenders score from 0 to 10, plugins from 0 to 100."""
_OK: Final = 200


class Passed(NamedTuple):
    """The result of an extender's filter."""

    names: Sequence[str]
    by_name: bool
    """Whether it returned names instead of nodes."""
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class HttpExtender:
    """Calls one extender. It connects at the first call."""

    def __init__(self, config: Extender, objects: WholeObjects, *, index: int, clock: Clock) -> None:
        """Raises ConfigError for a bad address or certificate. `index`: position in the configuration."""
        self.config = config
        self._objects = objects
        client = _client_config(config, index)
        self.name = client.server
        """The extender's URL without a password, for messages."""
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        self._timeout = config.http_timeout.total_seconds()
        self._credentials = fixed_or_file(client, clock)
        self._heads = RequestHeads(client)
        self._pool = Pool(client, Dialer(client, clock), max_connections=MAX_CONNECTIONS)

    def __repr__(self) -> str:
        return f"<HttpExtender {self.name}>"

    @property
    def score_factor(self) -> int:
        """The factor of its scores in the sum: its weight, scaled to the plugins' range."""
        return self.config.weight * (MAX_NODE_SCORE // MAX_EXTENDER_SCORE)

    def is_interested(self, pod: Pod) -> bool:
        """Whether the pod uses a resource that the extender manages; always true if it manages none."""
        return is_interested(self._managed, pod)

    async def filter(self, pod: Pod, names: Sequence[str]) -> Passed:
        """Call filter: the nodes that the extender accepts."""
        body = await self._nodes_request(pod, names)
        answer = await self._call(self.config.filter_verb, body, read_filter)
        if answer.error:
            raise self._failed(self.config.filter_verb, answer.error)
        by_name = self.config.node_cache_capable and answer.names is not None
        left = self._checked_names(answer.names if by_name else answer.node_names, names)
        return Passed(left, by_name, answer.failed, answer.unresolvable)

    def _checked_names(self, left: Sequence[str] | None, sent: Sequence[str]) -> Sequence[str]:
        known = frozenset(sent)
        for name in left or ():
            if name not in known:
                raise ExtenderError(
                    self.name,
                    f'extender "{self.name}" claims a filtered node "{name}" which is not found in the '
                    "input node list",
                )
        return tuple(dict.fromkeys(left or ()))

    async def prioritize(self, pod: Pod, names: Sequence[str]) -> Sequence[tuple[str, int]]:
        """Call prioritize: the extender's scores, in its own range."""
        body = await self._nodes_request(pod, names)
        return await self._call(self.config.prioritize_verb, body, read_scores)

    async def preempt(
        self, pod: Pod, victims: Mapping[str, ProposedVictims], pods: Mapping[str, Pod]
    ) -> Mapping[str, ProposedVictims | None]:
        """Call preempt: the nodes and victims that the extender agrees to. `pods` are the victims by UID."""
        whole: dict[str, bytes] | None = None
        if not self.config.node_cache_capable:
            whole = {uid: await self._whole(victim) for uid, victim in pods.items()}
        body = preemption_request(await self._whole(pod), victims, whole=whole)
        return await self._call(self.config.preempt_verb, body, read_victims)

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Call bind: the extender binds the pod."""
        metadata = pod.metadata
        body = binding_request(
            name=metadata.name, namespace=metadata.namespace, uid=metadata.uid, node_name=node_name
        )
        problem = await self._call(self.config.bind_verb, body, read_binding, repeatable=False)
        if problem:
            raise self._failed(self.config.bind_verb, problem)

    async def close(self) -> None:
        await self._pool.close()

    # Requests

    async def _nodes_request(self, pod: Pod, names: Sequence[str]) -> bytes:
        whole = await self._whole(pod)
        if self.config.node_cache_capable:
            return nodes_request(whole, nodes=None, names=names)
        try:
            return nodes_request(whole, nodes=await self._objects.nodes(names), names=None)
        except ApiError as error:
            raise ExtenderError(self.name, f"cannot send the nodes to {self}: {error}") from error

    async def _whole(self, pod: Pod) -> bytes:
        try:
            return await self._objects.pod(pod)
        except ApiError as error:
            raise ExtenderError(self.name, f"cannot send the pod to {self}: {error}") from error

    async def _call(
        self, verb: str, body: bytes, read: Callable[[bytes], T], *, repeatable: bool = True
    ) -> T:
        path = "/" + quote(verb, safe="/%?&=+,;:@~!$'()*")
        url = f"{self.name}{path}"
        credential = await self._credentials.current()
        request = OutgoingRequest(
            f'Post "{url}"',
            self._heads.post(path, body, credential),
            repeatable=repeatable,
            deadline=asyncio.get_running_loop().time() + self._timeout,
            cap=MAX_ANSWER_BYTES + 2 * len(body),
        )
        try:
            answer = await self._pool.ask(request, credential)
        except ApiError as error:
            raise ExtenderError(self.name, str(error)) from error
        if answer.status != _OK:
            raise ExtenderError(self.name, f"failed {verb} with extender at URL {url}, code {answer.status}")
        try:
            return read(answer.body)
        except WireError as error:
            problem = f"the answer of the extender at URL {url} cannot be read: {error}"
            raise ExtenderError(self.name, problem) from error

    def _failed(self, verb: str, problem: str) -> ExtenderError:
        return ExtenderError(self.name, f'extender "{self.name}" failed {verb}: {problem}')


def is_interested(managed: frozenset[str], pod: Pod) -> bool:
    """Whether a container requests or limits one of these resources; always true without resources."""
    return not managed or any(
        _has_any(container, managed) for container in (*pod.spec.containers, *pod.spec.init_containers)
    )


def _has_any(container: Container, managed: frozenset[str]) -> bool:
    resources = container.resources
    return not (managed.isdisjoint(resources.requests) and managed.isdisjoint(resources.limits))


def _client_config(config: Extender, index: int) -> ClientConfig:
    where = f"extenders[{index}]"
    try:
        parts = urlsplit(config.url_prefix if "://" in config.url_prefix else f"http://{config.url_prefix}")
        user, password = parts.username, parts.password
    except ValueError:
        raise ConfigError(f"{where}.urlPrefix: cannot be read; write it as http://host:port/path") from None
    server = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")
    client = ClientConfig(
        server=server,
        source=where,
        peer="extender",
        tls=_tls_settings(config, where),
        username=unquote(user or ""),
        password=Secret(unquote(password)) if password else None,
    )
    return replace(client, proxy=proxy_from_environment(client.address, os.environ))


def _tls_settings(config: Extender, where: str) -> TlsSettings:
    tls = config.tls_config or ExtenderTLSConfig()
    has_ca = bool(tls.ca_file or tls.ca_data)
    if tls.insecure and has_ca:
        raise ConfigError(f"{where}.tlsConfig: insecure and a certificate authority exclude each other")
    return TlsSettings(
        ca_data=_text(tls.ca_data, f"{where}.tlsConfig.caData"),
        ca_file=tls.ca_file,
        server_name=tls.server_name,
        # HTTPS without a certificate authority trusts any server, as with kube-scheduler.
        insecure=tls.insecure or (config.enable_https and not has_ca),
        certificate_data=_text(tls.cert_data, f"{where}.tlsConfig.certData"),
        certificate_file=tls.cert_file,
        key_data=Secret(_text(tls.key_data, f"{where}.tlsConfig.keyData")) if tls.key_data else None,
        key_file=tls.key_file,
    )


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: must be a PEM text, base64 encoded") from None
