"""`kuberth simulate snapshot` and `record`: read a real cluster."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import click

from kuberth.client.http_api import HttpApi
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.errors import ConfigError
from kuberth.simulation.arrivals import Arrival
from kuberth.simulation.recording import Recording
from kuberth.simulation.snapshots import take_snapshot, write_whole
from kuberth.simulation.traces import write_trace
from kuberth.text.figures import count


def write_snapshot(kubeconfig: str | None, context: str | None, file: Path | None) -> None:
    if file is None and sys.stdout.isatty():
        raise click.UsageError("a snapshot is binary; redirect the output or give --output-file")
    if file is not None and not file.name.endswith(".json.gz"):
        raise click.UsageError("--output-file: expected a file name that ends with .json.gz")
    content = asyncio.run(_snapshot(kubeconfig, context))
    if file is None:
        sys.stdout.buffer.write(content)
    else:
        write_whole(file, content)


async def _snapshot(kubeconfig: str | None, context: str | None) -> bytes:
    api = HttpApi(load_client_config(kubeconfig=kubeconfig, context=context))
    try:
        return await take_snapshot(api)
    finally:
        await api.close()


def write_recording(kubeconfig: str | None, context: str | None, seconds: float | None, file: Path) -> None:
    if file.suffix != ".jsonl":
        raise click.UsageError("--output-file: expected a file name that ends with .jsonl")
    if not file.resolve().parent.is_dir():
        raise ConfigError(f"{file}: the folder does not exist")
    arrivals = asyncio.run(_record(kubeconfig, context, seconds))
    write_whole(file, write_trace(arrivals).encode())
    click.echo(f"{count(len(arrivals), 'pod')} recorded in {file}", err=True)


async def _record(kubeconfig: str | None, context: str | None, seconds: float | None) -> list[Arrival]:
    api = HttpApi(load_client_config(kubeconfig=kubeconfig, context=context))
    loop = asyncio.get_running_loop()
    recording = Recording(api, now=loop.time)
    following = asyncio.ensure_future(recording.follow())
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, following.cancel)
    try:
        await asyncio.wait([following], timeout=seconds)
        if following.done() and not following.cancelled():
            following.result()
        return recording.arrivals()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await api.close()
