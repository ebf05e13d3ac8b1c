"""The schedulers to measure: Kuberth, the Go kube-scheduler, or a program that only binds.

In: an arena. Out: a running scheduler and its meter. In process Kuberth is a `Scheduler` in this event
loop; over HTTPS it is `kuberth run`, a program like its peers, so that CPU time and memory are its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from kuberth.api.wire import encode
from kuberth.assembly import Scheduler
from kuberth.assembly.profiles import load_configuration
from kuberth.bench.arenas import Arena, expect_https, find_program, format_gates
from kuberth.bench.cases import Workload
from kuberth.bench.collecting import Meter, ProcessUsage
from kuberth.bench.processes import ChildProcess, free_port, running, usage_of
from kuberth.bench.profiling import StackSampler
from kuberth.bench.servers import is_ready
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import ClientConfig, TlsSettings
from kuberth.config.types import API_VERSION, KIND
from kuberth.errors import ConfigError
from kuberth.framework.registry import Registry
from kuberth.local.in_process import InProcessApi
from kuberth.observe.exposition import render
from kuberth.queue.interface import QueueFactory
from kuberth.text.documents import read_file
from kuberth.text.field_errors import InvalidConfiguration

KUBERTH: Final = "kuberth"
KUBE_SCHEDULER: Final = "kube-scheduler"
BLIND: Final = "blind"

QPS: Final = 5000
"""Requests a second that every scheduler's client may send: scheduler_perf's limit."""
_OPEN_PATHS: Final = "/healthz,/livez,/readyz,/metrics"
_READY_SECONDS: Final = 60.0
_OLD_VERSION: Final = "1.33"
"""The last in which queueing hints could be turned off; scheduler_perf emulates it where a workload does."""


RunningMeter = AbstractAsyncContextManager[Meter]
Contender = Callable[[Arena, Workload, Mapping[str, bool]], RunningMeter]
"""Runs a scheduler in an arena, with these feature gates, for the duration of the block."""


@dataclass(frozen=True, slots=True)
class OwnScheduler:
    """Kuberth as the command line configures it."""

    registry: Registry
    queue: QueueFactory | None = None
    config: Path | None = None
    """The configuration to use in place of the workload's."""
    plugin_references: Sequence[str] = ()
    queue_reference: str | None = None
    by_code: Sequence[str] = ()
    """Names of plugins that the caller registered in this process; no other program has them."""
    profile: Path | None = None
    """The file to which its folded stacks are written."""

    def running(self, arena: Arena, workload: Workload, gates: Mapping[str, bool]) -> RunningMeter:
        file = self.config or workload.case.scheduler_config
        tree = configuration(file)
        if arena.core is not None:
            return self._in_process(arena, tree, gates, source="" if file is None else str(file))
        return self._process(arena, tree, gates)

    @asynccontextmanager
    async def _in_process(
        self, arena: Arena, tree: dict[str, Any], gates: Mapping[str, bool], *, source: str
    ) -> AsyncIterator[Meter]:
        assert arena.core is not None
        try:
            config = load_configuration(tree, self.registry, feature_gates=gates)
        except InvalidConfiguration as error:
            raise InvalidConfiguration(error.errors, source=source) from error
        scheduler = Scheduler(
            InProcessApi(arena.core), config=config, registry=self.registry, queue=self.queue
        )
        sampler = contextlib.nullcontext() if self.profile is None else StackSampler(self.profile)
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(scheduler.run(grace_seconds=2.0), name="scheduler")
            await scheduler.wait_synced()
            try:
                with sampler:
                    yield _OwnMeter(scheduler)
            finally:
                scheduler.stop()
                await asyncio.wait([task])

    def _process(self, arena: Arena, tree: dict[str, Any], gates: Mapping[str, bool]) -> RunningMeter:
        if self.by_code:
            raise ConfigError(
                f"{', '.join(self.by_code)} is known to this process alone; for a scheduler as a program of "
                "its own name it with --plugin MODULE:CLASS (or measure with --target inproc)"
            )
        command = [sys.executable, "-m", "kuberth", "run"]
        if self.profile is not None:
            command = [sys.executable, "-m", "kuberth.bench.profiling", str(self.profile), "run"]
        command += [f"--plugin={reference}" for reference in self.plugin_references]
        if self.queue_reference is not None:
            command.append(f"--queue={self.queue_reference}")
        return _scheduler_program(KUBERTH, command, arena, tree, gates)


def kube_scheduler(
    arena: Arena, workload: Workload, gates: Mapping[str, bool], *, assets: Path | None = None
) -> RunningMeter:
    """The Go program."""
    command = [str(find_program(KUBE_SCHEDULER, assets))]
    if gates.get("SchedulerQueueingHints") is False:
        command.append(f"--emulated-version={_OLD_VERSION}")
        # Unknown to the version that is emulated.
        gates = {name: on for name, on in gates.items() if name != "OpportunisticBatching"}
    tree = configuration(workload.case.scheduler_config)
    return _scheduler_program(KUBE_SCHEDULER, command, arena, tree, gates)


@asynccontextmanager
async def blind_binder(arena: Arena, workload: Workload, gates: Mapping[str, bool]) -> AsyncIterator[Meter]:
    """A program that binds every pod to the next node and writes the event, without any decision."""
    command = [sys.executable, "-m", "kuberth.bench.blind_binder", str(expect_https(arena, BLIND))]
    async with running(BLIND, command, folder=arena.folder) as program, _watched(program):
        yield _ProcessMeter(program, None)


@asynccontextmanager
async def _scheduler_program(
    name: str, command: list[str], arena: Arena, tree: dict[str, Any], gates: Mapping[str, bool]
) -> AsyncIterator[Meter]:
    kubeconfig = expect_https(arena, name)
    tree["clientConnection"] = {"kubeconfig": str(kubeconfig), "qps": QPS, "burst": QPS}
    file = arena.folder / f"{name}.config.json"
    file.write_bytes(encode(tree))
    port = free_port()
    command += [
        f"--config={file}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={arena.folder / name}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--authorization-always-allow-paths={_OPEN_PATHS}",
    ]
    if gates:
        command.append(f"--feature-gates={format_gates(gates)}")
    # The program issues its own certificate at every start.
    own = ClientConfig(server=f"https://127.0.0.1:{port}", source=name, tls=TlsSettings(insecure=True))
    async with (
        HttpApi(own, qps=-1) as pages,
        running(name, command, folder=arena.folder, graceful=True) as program,
    ):
        await program.until_ready(partial(is_ready, pages), seconds=_READY_SECONDS)
        async with _watched(program):
            yield _ProcessMeter(program, pages)


@asynccontextmanager
async def _watched(program: ChildProcess) -> AsyncIterator[None]:
    """Fail if the program ends before the block does."""
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(program.watch(), name=f"watch over {program.name}")
        yield
        watching.cancel()


@dataclass(frozen=True, slots=True)
class _ProcessMeter:
    program: ChildProcess
    pages: HttpApi | None

    def usage(self) -> ProcessUsage:
        return self.program.usage()

    async def metrics(self) -> str:
        return "" if self.pages is None else (await self.pages.call("GET", "/metrics")).decode()


@dataclass(frozen=True, slots=True)
class _OwnMeter:
    """Measures this process, which the scheduler, the embedded server and the bench share."""

    scheduler: Scheduler

    def usage(self) -> ProcessUsage:
        return usage_of(os.getpid())

    async def metrics(self) -> str:
        return "".join(render(self.scheduler.metrics.families()))


def configuration(file: Path | None) -> dict[str, Any]:
    """The scheduler configuration without leader election; the connection is added later."""
    tree = {} if file is None else read_file(file, "the scheduler's configuration")
    if not isinstance(tree, dict):
        raise ConfigError(f"{file}: expected a {KIND}")
    return {"apiVersion": API_VERSION, "kind": KIND, **tree, "leaderElection": {"leaderElect": False}}
