"""LoadAware: prefers nodes with a low measured load, from Prometheus.

In: the result of a query to Prometheus' HTTP API, refreshed in the background. Out: a score per node, or none
if the figures are outdated, so that the other plugins decide.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kuberth.api import Node, Pod
from kuberth.cluster.nodes import Nodes
from kuberth.framework import (
    MAX_NODE_SCORE,
    SKIP,
    CycleState,
    DependsOn,
    Handle,
    Inputs,
    ScorePlugin,
    Status,
)

logger = logging.getLogger(__name__)

_NANOSECONDS: Final = 1_000_000_000
_MAX_BYTES: Final = 64 << 20
"""A longer response is rejected: the query may select every series of a cluster by mistake."""

NOT_SCORED: Final = -1
"""A generation that no node has."""


class LoadAwareArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    address: str = "http://localhost:9090"
    """Where Prometheus serves its HTTP API."""
    query: str = '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m]))'
    """An instant query with one result per node: its load, from 0 to 1."""
    node_label: str = "instance"
    """The label of a result with the node's name, or one of its addresses; a port is ignored."""
    refresh_seconds: float = 30
    stale_after_seconds: float = 180
    """Older figures are ignored."""
    timeout_seconds: float = 5

    def __post_init__(self) -> None:
        if not self.address.startswith(("http://", "https://")):
            raise ValueError(f"address {self.address!r} must start with http:// or https://")
        for name in ("refresh_seconds", "stale_after_seconds", "timeout_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0")


class Loads:
    """The last figures, by the name or the address of a node. `version` grows when they change."""

    def __init__(self) -> None:
        self.version = 0
        self.by_host: Mapping[str, float] = {}
        self.read_ns: int | None = None

    def set(self, by_host: Mapping[str, float], *, now_ns: int | None) -> None:
        self.version += 1
        self.by_host, self.read_ns = by_host, now_ns


class LoadAware(ScorePlugin):
    """Scores an idle node 100, and a node with a load of 1 or more 0."""

    name = "LoadAware"
    args_type = LoadAwareArgs

    def __init__(self, args: LoadAwareArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._loads = Loads()
        self.inputs = Inputs((), score=DependsOn.NODE_OBJECT, versions=(self._loads,))
        self._version = -1
        self._average = 0.0
        self._scored_at: NDArray[np.int64] = np.zeros(0, np.int64)
        """By row: the generation of the node for which the score is cached."""
        self._scores: NDArray[np.int64] = np.zeros(0, np.int64)

    def start(self) -> None:
        self._handle.spawn(self._follow(), name=f"loads of nodes from {self._args.address}")

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64] | Status:
        if not self._loads.by_host:
            return SKIP
        self._start_over_if_outdated(nodes.table.slots)
        rows = nodes.rows()
        written = nodes.take(nodes.table.node_generation)
        changed = np.flatnonzero((self._scored_at[rows] != written) & nodes.live())
        for position in changed.tolist():
            row = int(rows[position])
            load = self._load_of(nodes.table.node_at(row))
            self._scores[row] = round(MAX_NODE_SCORE * (1 - min(max(load, 0.0), 1.0)))
            self._scored_at[row] = written[position]
        return self._scores[rows]

    def _start_over_if_outdated(self, slots: int) -> None:
        """Drop all scores if the figures are new, or the table has more rows."""
        if self._version != self._loads.version or len(self._scored_at) < slots:
            self._version = self._loads.version
            self._scored_at = np.full(2 * slots, NOT_SCORED, np.int64)
            self._scores = np.zeros(2 * slots, np.int64)
            loads = self._loads.by_host
            self._average = sum(loads.values()) / len(loads)

    def _load_of(self, node: Node) -> float:
        """A node without a figure gets the average score."""
        loads = self._loads.by_host
        hosts = (node.metadata.name, *(address.address for address in node.status.addresses))
        return next((loads[host] for host in hosts if host in loads), self._average)

    async def _follow(self) -> None:
        failed = False
        while True:
            problem = await self._refresh()
            if problem and not failed:
                logger.warning(
                    "the loads of nodes could not be read from %s: %s", self._args.address, problem
                )
            elif failed and not problem:
                logger.warning("the loads of nodes are read from %s again", self._args.address)
            failed = bool(problem)
            await asyncio.sleep(self._pause())

    async def _refresh(self) -> str:
        """Read the figures once; returns an error message, or "". Outdated figures are dropped."""
        try:
            async with asyncio.timeout(2 * self._args.timeout_seconds):
                body = await asyncio.to_thread(_get, self._args)
            loads = loads_in(json.loads(body), self._args.node_label)
        except (OSError, TimeoutError, ValueError) as exc:
            if self._seconds_left() <= 0 and self._loads.by_host:
                self._loads.set({}, now_ns=None)
            return f"{type(exc).__name__}: {exc}"
        self._loads.set(loads, now_ns=self._handle.clock.now_ns())
        return "" if loads else "the query has no results with a figure and the label of a node"

    def _seconds_left(self) -> float:
        """How long the figures remain valid."""
        read_ns = self._loads.read_ns
        if read_ns is None:
            return 0.0
        age = (self._handle.clock.now_ns() - read_ns) / _NANOSECONDS
        return self._args.stale_after_seconds - age

    def _pause(self) -> float:
        left = self._seconds_left()
        return min(self._args.refresh_seconds, left) if left > 0 else self._args.refresh_seconds


def loads_in(answer: Any, node_label: str) -> dict[str, float]:
    """The figures in a response of `/api/v1/query`, by host; ValueError for an invalid one."""
    try:
        if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
            raise ValueError(f"no vector but {answer.get('error') or answer['data']['resultType']}")
        results = answer["data"]["result"]
        pairs = [(each["metric"].get(node_label, ""), float(each["value"][1])) for each in results]
    except (AttributeError, IndexError, KeyError, TypeError) as exc:
        raise ValueError(f"not an answer of Prometheus' API: {exc!r}") from exc
    return {_host(name): load for name, load in pairs if name and np.isfinite(load)}


def _host(instance: str) -> str:
    """`10.0.0.1:9100` and `[fd00::1]:9100` without the port."""
    host, colon, port = instance.rpartition(":")
    if colon and port.isdigit() and (":" not in host or host.startswith("[")):
        return host.strip("[]")
    return instance.strip("[]")


def _get(args: LoadAwareArgs) -> bytes:
    # Only a scheduler that uses the plugin needs these imports.
    from urllib.error import HTTPError
    from urllib.parse import urlencode
    from urllib.request import urlopen

    url = f"{args.address.rstrip('/')}/api/v1/query?{urlencode({'query': args.query})}"
    try:
        with urlopen(url, timeout=args.timeout_seconds) as response:
            body: bytes = response.read(_MAX_BYTES + 1)
    except HTTPError as refusal:
        with refusal:  # it holds the connection
            said = refusal.read(200).decode(errors="replace")
            raise ValueError(f"HTTP {refusal.code} {refusal.reason}: {said}") from None
    if len(body) > _MAX_BYTES:
        raise ValueError(f"the answer is longer than {_MAX_BYTES >> 20} MiB")
    return body
