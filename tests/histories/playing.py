"""Clients that call a server and record what it answers, while faults happen to it.

In: a plan and a server. Out: a history. Clients wait while the server is down; a call whose answer is lost
stays in the history without one.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.histories.drawing import MANY_CHANGES, Fault, Plan
from tests.histories.http_client import Connection, LostError, NotSentError
from tests.histories.recording import BOOKMARK, Call, Event, History, Version, Watch
from tests.histories.targets import Target

VALUE: Final = "histories.test/value"
ANSWER_SECONDS: Final = 5.0
"""How long a client waits for an answer before it calls the outcome unknown."""
REACH_SECONDS: Final = 15.0
"""How long a watch may take to deliver the last change of a run."""
_KINDS: Final = {"configmaps": "ConfigMap", "secrets": "Secret"}


async def play(plan: Plan, faults: tuple[Fault, ...], target: Target) -> History:
    """Play a run on a server that is up; it is up again when the run ends."""
    return await _Run(plan, faults, target).play()


class _Run:
    def __init__(self, plan: Plan, faults: tuple[Fault, ...], target: Target) -> None:
        self.plan = plan
        self.faults = faults
        self.target = target
        self.history = History(keeps_all=plan.keep_changes >= MANY_CHANGES)
        self.started = time.monotonic()
        self.ended = False
        self.revisions: list[int] = []
        """Revisions that some client has seen."""

    def now(self) -> float:
        return time.monotonic() - self.started

    async def play(self) -> History:
        first = _Client(self, "first")
        since = {}
        for kind in self.plan.kinds:
            since[kind] = (await first.until_answered(first.list, f"{kind}/")).revision
        async with asyncio.TaskGroup() as watching:
            witnesses = [_Witness(self, f"{kind}/", since[kind]) for kind in self.plan.kinds]
            tasks = [watching.create_task(each.run(), name=f"witness {each.prefix}") for each in witnesses]
            others = [
                watching.create_task(_watch_often(self, number), name=f"watcher {number}")
                for number in range(self.plan.watchers)
            ]
            async with asyncio.TaskGroup() as group:
                for number in range(self.plan.clients):
                    group.create_task(_Client(self, f"c{number}").run(), name=f"client {number}")
                group.create_task(self._disturb(), name="faults")
            last = {}
            for kind in self.plan.kinds:
                key = f"{kind}/default/s{self.plan.seed}-last"
                call = await first.until_answered(first.write, "create", key)
                last[kind] = call.versions[0].revision
            for witness in witnesses:
                await witness.reach(last[witness.prefix.rstrip("/")])
            for kind in self.plan.kinds:
                await first.until_answered(first.list, f"{kind}/")
            for task in [*tasks, *others]:
                task.cancel()
        first.close()
        return self.history

    async def _disturb(self) -> None:
        rng = random.Random(f"moments {self.plan.seed}")
        for fault in self.faults:
            await asyncio.sleep(fault.after)
            began = self.now()
            if fault.kind == "full":
                self.target.set_disk(full=True)
                await asyncio.sleep(fault.seconds)
                self.target.set_disk()
                what = f"full disk for {fault.seconds:.3f} s"
            elif fault.kind == "slow":
                self.target.set_disk(sync_seconds=fault.seconds)
                what = f"syncs take {fault.seconds:.3f} s"
            else:
                what = await self.target.restart(fault.kind, rng, pause=fault.seconds)
            self.history.faults.append((began, what))
        self.target.set_disk()
        await asyncio.sleep(self.plan.calm)
        self.ended = True


class _Client:
    """One user of the API: one call at a time."""

    def __init__(self, run: _Run, name: str) -> None:
        self._run = run
        self.name = name
        self._rng = random.Random(f"client {run.plan.seed} {name}")
        self._connection: Connection | None = None
        self._written = 0
        self._known: dict[str, int] = {}
        """The revisions of objects that this client saw last."""

    async def run(self) -> None:
        while not self._run.ended:
            await self._act()
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def until_answered(self, act: Callable[..., Awaitable[Call]], *args: str) -> Call:
        while True:
            call = await act(*args)
            if call.status in (200, 201):
                return call
            await asyncio.sleep(0.01)

    async def _act(self) -> None:
        rng, plan = self._rng, self._run.plan
        key = f"{rng.choice(plan.kinds)}/{rng.choice(plan.namespaces)}/{rng.choice(plan.names)}"
        verb = rng.choices(
            ("create", "get", "list", "update", "patch", "delete"), weights=(20, 20, 8, 30, 10, 12)
        )[0]
        if verb == "get":
            await self.get(key)
        elif verb == "list":
            depth = rng.choice((1, 2))
            await self.list("/".join(key.split("/")[:depth]) + "/", limit=rng.choice((0, 0, 1, 2)))
        else:
            known = self._known.get(key, 0)
            expects = known if rng.random() < {"update": 0.8, "patch": 0.3, "delete": 0.3}.get(verb, 0) else 0
            await self.write(verb, key, expects=expects)

    # Calls

    async def get(self, key: str) -> Call:
        call = Call(self.name, "get", key, self._run.now())
        return await self._ask(call, "GET", _path(key))

    async def list(self, prefix: str, *, limit: int = 0) -> Call:
        """All pages of a list: the state at the revision of the first."""
        call = Call(self.name, "list", prefix, self._run.now())
        path = _path(prefix)
        await self._ask(call, "GET", f"{path}?limit={limit}" if limit else path, keep=False)
        ended, body = call.ended, self._body
        items: list[Any] = []
        while call.status == 200:
            items += body["items"]
            token = body["metadata"].get("continue")
            if not token:
                break
            # Others write while a client reads page by page.
            await asyncio.sleep(self._rng.choice((0.0, 0.01)) * self._rng.random())
            page = Call(self.name, "list", prefix, self._run.now())
            await self._ask(page, "GET", f"{path}?limit={limit}&continue={token}", keep=False)
            body, call.status = self._body, page.status
        if call.status == 200:
            # The first page chose the state, so that is when the list was answered.
            call.ended, call.revision = ended, int(body["metadata"]["resourceVersion"])
            call.versions = self._versions(prefix, items)
            self._run.revisions.append(call.revision)
            self._run.history.calls.append(call)
        return call

    async def write(self, verb: str, key: str, *, expects: int = 0) -> Call:
        call = Call(self.name, verb, key, self._run.now(), expects=expects)
        kind, namespace, name = key.split("/")
        if verb == "delete":
            body: Any = {"preconditions": {"resourceVersion": str(expects)}} if expects else None
            return await self._ask(call, "DELETE", _path(key), body)
        self._written += 1
        call.value = f"{self.name}-{self._run.plan.seed}-{self._written}"
        metadata: dict[str, Any] = {"annotations": {VALUE: call.value}}
        if expects:
            metadata["resourceVersion"] = str(expects)
        if verb == "patch":
            return await self._ask(
                call, "PATCH", _path(key), {"metadata": metadata}, content_type="application/merge-patch+json"
            )
        metadata |= {"name": name, "namespace": namespace}
        body = {"apiVersion": "v1", "kind": _KINDS[kind], "metadata": metadata}
        if verb == "create":
            return await self._ask(call, "POST", _path(f"{kind}/{namespace}/"), body)
        return await self._ask(call, "PUT", _path(key), body)

    async def _ask(
        self,
        call: Call,
        method: str,
        path: str,
        body: Any = None,
        *,
        keep: bool = True,
        content_type: str = "application/json",
    ) -> Call:
        self._body: Any = None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                connection = await self._connect()
                call.began = self._run.now()
                status, self._body = await connection.request(method, path, body, content_type=content_type)
            call.status, call.ended = status, self._run.now()
        except NotSentError:
            self.close()
            await asyncio.sleep(0.002)
            return call  # it took no effect, so it is no part of the history
        except (LostError, TimeoutError):
            self.close()
        if call.status in (200, 201) and call.verb in ("create", "get", "update", "patch"):
            call.versions = self._versions(call.key, [self._body])
        if keep:
            self._run.history.calls.append(call)
        if call.unknown or call.status == 429:
            await asyncio.sleep(0.01)
        return call

    async def _connect(self) -> Connection:
        target = self._run.target
        await target.up.wait()
        if self._connection is not None and self._connection.address != target.address:
            self.close()
        if self._connection is None:
            assert target.address is not None
            self._connection = await Connection.open(target.address)
        return self._connection

    def _versions(self, key: str, items: Iterable[Any]) -> tuple[Version, ...]:
        plural = key.split("/")[0]
        all_found = (_version(self._run.plan, plural, item) for item in items)
        found = tuple(version for version in all_found if version is not None)
        for version in found:
            self._known[version.key] = version.revision
        return found


class _Witness:
    """Watches everything of one kind during the whole run, through restarts."""

    def __init__(self, run: _Run, prefix: str, since: int) -> None:
        self._run = run
        self.prefix = prefix
        self._since = since
        self._watch: Watch | None = None
        self._progress = asyncio.Event()

    async def run(self) -> None:
        while True:
            self._watch = Watch(f"witness {self.prefix}", self.prefix, self._since, self._run.now())
            async for revision in follow(self._run, self._watch):
                self._since = revision
                self._progress.set()
            if self._watch.expired:
                client = _Client(self._run, "witness")
                self._since = (await client.until_answered(client.list, self.prefix)).revision
                client.close()
            await asyncio.sleep(0.002)

    async def reach(self, revision: int) -> None:
        try:
            async with asyncio.timeout(REACH_SECONDS):
                while self._since < revision:
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            if self._watch is not None:
                self._watch.must_reach = revision


async def _watch_often(run: _Run, number: int) -> None:
    """Watch from revisions that anyone has seen, for a while each."""
    rng = random.Random(f"watcher {run.plan.seed} {number}")
    while True:
        key = f"{rng.choice(run.plan.kinds)}/{rng.choice(run.plan.namespaces)}/"
        prefix = rng.choice((key, key.split("/")[0] + "/"))
        since = rng.choice(run.revisions[-20:])
        watch = Watch(f"w{number}", prefix, since, run.now())
        try:
            async with asyncio.timeout(rng.uniform(0.02, 0.3)):
                async for revision in follow(run, watch):
                    run.revisions.append(revision)
        except TimeoutError:
            pass
        await asyncio.sleep(0.002)


async def follow(run: _Run, watch: Watch) -> AsyncIterator[int]:
    """Record the events of a watch until it ends, however it ends; yields the revision it has reached."""
    try:
        async with _watching(run, watch) as events:
            run.history.watches.append(watch)
            async for event in events:
                if event["type"] == "ERROR":
                    # An API server that has just started says so too; then the watch is tried again.
                    watch.expired = event["object"].get("code") == 410
                    return
                metadata = event["object"]["metadata"]
                revision = int(metadata["resourceVersion"])
                version = _version(run.plan, watch.prefix.split("/")[0], event["object"])
                if event["type"] == BOOKMARK:
                    version = Version("", "", "", revision)
                if version is not None:
                    watch.events.append(Event(event["type"], version, run.now()))
                yield revision
    except (NotSentError, LostError):
        return


@asynccontextmanager
async def _watching(run: _Run, watch: Watch) -> AsyncIterator[AsyncIterator[Any]]:
    await run.target.up.wait()
    assert run.target.address is not None
    connection = await Connection.open(run.target.address)
    try:
        yield connection.watch(
            f"{_path(watch.prefix)}?watch=1&resourceVersion={watch.since}&allowWatchBookmarks=1"
        )
    finally:
        connection.close()


def _version(plan: Plan, plural: str, item: Any) -> Version | None:
    """None for objects of others. Items of lists do not say their kind."""
    metadata = item["metadata"]
    value = (metadata.get("annotations") or {}).get(VALUE)
    if value is None or not metadata["name"].startswith(f"s{plan.seed}-"):
        return None
    key = f"{plural}/{metadata['namespace']}/{metadata['name']}"
    return Version(key, metadata["uid"], value, int(metadata["resourceVersion"]))


def _path(key: str) -> str:
    """`kind/`, `kind/namespace/` or `kind/namespace/name` as a path of the API."""
    kind, namespace, name = (*key.split("/"), "", "")[:3]
    start = f"/api/v1/namespaces/{namespace}/{kind}" if namespace else f"/api/v1/{kind}"
    return f"{start}/{name}" if name else start
