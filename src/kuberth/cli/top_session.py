"""Runs `kuberth top`: reads the stream, draws frames and handles keys.

In: the server's address. Out: a live screen until the user quits; or one frame, or the state as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import termios
import time
import tty
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import Any, Final
from urllib.parse import urlencode

import click
from rich.console import Console
from rich.live import Live

from kuberth.cli.context import Extras
from kuberth.cli.explain_sources import serving_at
from kuberth.cli.top_display import brief, detail_lines, frame, whole
from kuberth.cli.top_model import VIEW, TopModel
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import ClientConfig
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.clock import run_on_fastest_loop
from kuberth.errors import ApiError, ConfigError, ForbiddenError, KuberthError, UnauthorizedError
from kuberth.explaining.page import PATH as EXPLAIN_PATH
from kuberth.overview.pages import HISTORY_PATH, SEARCH_PATH, STREAM_PATH
from kuberth.overview.reading import EventReader, StreamState
from kuberth.programs.run.watchdog import on_signals

_KEY_NAMES: Final = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x04": "q",
    "\x1b": "escape",
}
_ESCAPE_SEQUENCES: Final = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "1~": "home",
    "4~": "end",
    "5~": "pageup",
    "6~": "pagedown",
    "Z": "tab",
}
_KEY: Final = re.compile(r"\x1b[\[O](?P<sequence>[^@-~]*[@-~]?)|.", re.DOTALL)
FIRST_SECONDS: Final = 15.0
"""The time limit for the server to send its whole state."""
DRAW_SECONDS: Final = 0.1
"""The minimum time between two frames."""
AGAIN_SECONDS: Final = 2.0
"""The delay before a stream that ended is requested again."""
CLOCK_SECONDS: Final = 1.0
"""The interval at which ages are redrawn even if nothing changes."""


def decode_keys(text: str) -> Iterator[str]:
    """Names of the keys in a chunk of terminal input; unknown keys are left out."""
    for found in _KEY.finditer(text):
        letter, sequence = found[0], found["sequence"]
        if sequence is not None:
            name = _ESCAPE_SEQUENCES.get(sequence, "")
        else:
            name = _KEY_NAMES.get(letter, letter if letter.isprintable() else "")
        if name:
            yield name


@contextmanager
def keys_of(descriptor: int, press: Callable[[str], None]) -> Iterator[None]:
    """Call `press` for every key; the end of the input counts as q."""
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def ready() -> None:
        try:
            data = os.read(descriptor, 1024)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            loop.remove_reader(descriptor)
            press("q")
        for key in decode_keys(data.decode(errors="ignore")):
            press(key)

    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        # No Ctrl-Z: the shell would keep the screen of this program.
        mode = termios.tcgetattr(descriptor)
        mode[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(descriptor, termios.TCSANOW, mode)
        loop.add_reader(descriptor, ready)
        yield
    finally:
        loop.remove_reader(descriptor)
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def run_top(_extras: Extras, flags: Mapping[str, Any]) -> None:
    client = load_client_config(kubeconfig=flags["kubeconfig"], context=flags["context"])
    if flags["server"] is not None:
        client = serving_at(client, flags)
    run_on_fastest_loop(show(client, view=flags["view"], once=flags["once"], output=flags["output"]))


async def show(client: ClientConfig, *, view: str | None, once: bool, output: str) -> None:
    """Run until the user quits; KuberthError if there is nothing to show. `view` None: the first one."""
    console = Console(highlight=False, markup=False, emoji=False)
    async with HttpApi(client) as api:
        if output == "json" or once or not (console.is_terminal and sys.stdin.isatty()):
            await _show_once(api, client, console, view, output)
        else:
            await _Session(api, client, console, view or VIEW).run()


async def _show_once(
    api: HttpApi, client: ClientConfig, console: Console, view: str | None, output: str
) -> None:
    seen = StreamState()
    try:
        async with asyncio.timeout(FIRST_SECONDS), aclosing(_events(api, client)) as events:
            async for name, tree in events:
                seen.take(name, tree)
                if seen.complete:
                    break
    except TimeoutError as error:
        raise KuberthError(f"{client.server} did not send its state within {FIRST_SECONDS:g} s") from error
    if not seen.complete:
        raise KuberthError(f"{client.server} ended the stream before it had sent its state")
    if output == "json":
        click.echo(json.dumps(seen.tree(), ensure_ascii=False, indent=2))
    else:
        model = TopModel(seen, view=view or VIEW)
        width = console.width if console.is_terminal else None
        now = seen.hello["now"]
        text = brief(model, width=width, now=now) if view is None else whole(model, width=width, now=now)
        console.print(text, soft_wrap=True)


async def _events(api: HttpApi, client: ClientConfig) -> AsyncGenerator[tuple[str, Any], None]:
    """The name and the tree of every event of the stream; errors say what to do."""
    reader = EventReader()
    try:
        async with aclosing(api.stream(STREAM_PATH)) as pieces:
            async for piece in pieces:
                for event in reader.feed(piece):
                    yield event
    except (UnauthorizedError, ForbiddenError) as error:
        raise KuberthError(
            f"{client.server} refuses these credentials for {STREAM_PATH}: {error}; "
            "check --kubeconfig and --context"
        ) from error
    except ApiError as error:
        if error.code in (404, 406):
            raise ConfigError(
                f"{client.server} has no {STREAM_PATH}: start Kuberth with its page (`kuberth up` serves it; "
                "for `kuberth run --page` give --server https://HOST:10259)"
            ) from error
        raise


class _Session:
    """A screen, a stream and a keyboard."""

    def __init__(self, api: HttpApi, client: ClientConfig, console: Console, view: str) -> None:
        self._api = api
        self._client = client
        self._console = console
        self._model = TopModel(StreamState(), view=view)
        self._problem = ""
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._skew = 0.0

    async def run(self) -> None:
        # Errors that waiting cannot fix are raised before the screen is switched.
        async with aclosing(_events(self._api, self._client)) as events:
            first = await anext(events, None)
            with (
                # The terminal is restored after a signal, too.
                on_signals(self._ended.set, signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
                Live(console=self._console, screen=True, auto_refresh=False) as live,
                keys_of(sys.stdin.fileno(), self._press),
            ):
                async with asyncio.TaskGroup() as tasks:
                    beside = [
                        tasks.create_task(self._read(first, events), name="stream"),
                        tasks.create_task(self._draw(live), name="screen"),
                    ]
                    await self._ended.wait()
                    for task in beside:
                        task.cancel()

    def _press(self, key: str) -> None:
        self._model.press(key)
        self._changed.set()
        if self._model.ended:
            self._ended.set()

    async def _read(self, first: tuple[str, Any] | None, events: AsyncIterator[tuple[str, Any]]) -> None:
        """Read the stream, and request it again when it ends."""
        await self._follow(first, events)
        while True:
            self._problem = self._problem or f"{self._client.server} ended the stream; reconnecting"
            self._changed.set()
            await asyncio.sleep(AGAIN_SECONDS)
            async with aclosing(_events(self._api, self._client)) as again:
                await self._follow(None, again)

    async def _follow(self, first: tuple[str, Any] | None, events: AsyncIterator[tuple[str, Any]]) -> None:
        seen = StreamState()
        if first is not None:
            self._take(seen, *first)
        try:
            async for name, tree in events:
                self._take(seen, name, tree)
            self._problem = ""
        except KuberthError as error:
            self._problem = str(error)

    def _take(self, seen: StreamState, name: str, tree: Any) -> None:
        seen.take(name, tree)
        if name == "hello":
            self._skew = tree["now"] - time.time()
        if seen.complete:
            self._model.seen = seen
            self._problem = ""
            self._changed.set()

    async def _draw(self, live: Live) -> None:
        while True:
            self._changed.clear()
            await self._send_requests()
            size = self._console.size
            live.update(
                frame(
                    self._model,
                    width=size.width,
                    height=size.height,
                    now=time.time() + self._skew,
                    problem=self._problem,
                ),
                refresh=True,
            )
            await asyncio.sleep(DRAW_SECONDS)
            try:
                async with asyncio.timeout(CLOCK_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _send_requests(self) -> None:
        """Send the requests that keys have triggered."""
        model = self._model
        if (wanted := model.wanted) is not None:
            model.wanted = None
            await self._report_errors(self._show_pod(*wanted))
        if (sought := model.sought) is not None:
            model.sought = None
            await self._report_errors(self._find(sought))

    async def _report_errors(self, question: Awaitable[None]) -> None:
        try:
            await question
        except KuberthError as error:
            self._problem = str(error)

    async def _find(self, text: str) -> None:
        self._model.add_found(await self._get(SEARCH_PATH, q=text))

    async def _show_pod(self, namespace: str, pod: str) -> None:
        story = await self._get(HISTORY_PATH, namespace=namespace, pod=pod)
        explanation: dict[str, Any] | None = None
        try:
            explanation = await self._get(EXPLAIN_PATH, namespace=namespace, pod=pod)
            if explanation.get("kind") == "Status":
                explanation = None
        except KuberthError as error:  # the pod may be gone; its history is still shown
            self._problem = str(error)
        now = time.time() + self._skew
        self._model.show_detail(detail_lines(story, explanation, width=self._console.width, now=now))

    async def _get(self, path: str, **query: str) -> dict[str, Any]:
        body = await self._api.call("GET", f"{path}?{urlencode(query)}")
        try:
            tree = json.loads(body)
        except ValueError:
            tree = None
        if not isinstance(tree, dict):
            raise KuberthError(
                f"{self._client.server} answered {path} with something other than a JSON object"
            )
        return tree
