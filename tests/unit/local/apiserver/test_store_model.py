"""The store against a model: staging, commits, full disks, compaction, watches and restarts, in any order."""

from __future__ import annotations

import asyncio
import resource
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kuberth.local.apiserver.objects import Obj, revision_of
from kuberth.local.apiserver.store.store import (
    Change,
    CompactedError,
    RevisionStore,
    SlowWatcherError,
    StorageError,
    Subscription,
)

T = TypeVar("T")
RESOURCES = ("pods", "nodes")
NAMESPACES = ("a", "a-b", "b")
KEYS = tuple(f"{namespace}/{name}" for namespace in NAMESPACES for name in ("x", "y"))
KEEP_CHANGES = 8
WATCH_LIMIT = 5

resources = st.sampled_from(RESOURCES)
keys = st.sampled_from(KEYS)


class Watch:
    """A subscription, and what it has still to deliver."""

    def __init__(self, subscription: Subscription, resource_: str, unread: list[Change]) -> None:
        self.subscription = subscription
        self.resource = resource_
        self.unread = unread
        self.backlog = len(unread)


class StoreMachine(RuleBasedStateMachine):
    @initialize(on_disk=st.booleans())
    def open(self, on_disk: bool) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.path = self.directory / "store.db" if on_disk else None
        self.loop = asyncio.new_event_loop()
        self.store = self.run(RevisionStore.open(self.path, keep_changes=KEEP_CHANGES))
        # The model: all committed changes there ever were, and those that are staged.
        self.changes: list[Change] = []
        self.staged: list[Change] = []
        self.revision = self.last_staged = 1
        self.compacted = 0
        self.lost: set[int] = set()
        self.watches: list[Watch] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, 20))

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.run(self.store.close())
            self.loop.close()
            shutil.rmtree(self.directory)

    # The model's answers

    def objects(self, resource_: str, *, namespace: str = "", staged: bool = False) -> list[Obj]:
        newest = {
            change.key: change.new
            for change in self.changes + (self.staged if staged else [])
            if change.resource == resource_ and change.key.startswith(f"{namespace}/" if namespace else "")
        }
        return [obj for _, obj in sorted(newest.items()) if obj is not None]

    def latest(self, resource_: str, key: str) -> Obj | None:
        for change in reversed(self.changes + self.staged):
            if (change.resource, change.key) == (resource_, key):
                return change.new
        return None

    def since(self, resource_: str, revision: int) -> list[Change]:
        return [each for each in self.changes if each.resource == resource_ and each.revision > revision]

    # What happens

    @rule(resource_=resources, key=keys, value=st.integers())
    def put(self, resource_: str, key: str, value: int) -> None:
        old = self.latest(resource_, key)
        new = self.store.stage(resource_, key, {"metadata": {"name": key}, "value": value})
        self.last_staged += 1
        assert new == {
            "metadata": {"name": key, "resourceVersion": str(self.last_staged)},
            "value": value,
        }
        self.staged.append(Change(self.last_staged, resource_, key, old, new))

    @rule(resource_=resources, key=keys)
    def delete(self, resource_: str, key: str) -> None:
        old = self.latest(resource_, key)
        if old is None:
            with pytest.raises(KeyError):
                self.store.stage(resource_, key, None)
            return
        gone = self.store.stage(resource_, key, None)
        self.last_staged += 1
        metadata = {**old["metadata"], "resourceVersion": str(self.last_staged)}
        assert gone == {**old, "metadata": metadata}
        self.staged.append(Change(self.last_staged, resource_, key, old, None))

    @rule()
    def commit(self) -> None:
        at_once(self.store.durable(self.revision))
        if self.staged:
            self.run(self.store.durable(self.last_staged))
        self._committed()

    def _committed(self) -> None:
        for watch in self.watches:
            watch.unread += [each for each in self.staged if each.resource == watch.resource]
        self.changes += self.staged
        if self.staged:
            self.revision = self.last_staged
        self.staged = []
        kept = [change.revision for change in self.changes if change.revision > self.compacted]
        if len(kept) > KEEP_CHANGES + KEEP_CHANGES // 4:
            self.compacted = kept[-KEEP_CHANGES - 1]

    @precondition(lambda self: self.path is not None and self.staged)
    @rule()
    def lose(self) -> None:
        """The disk is full."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            with pytest.raises(StorageError):
                self.run(self.store.durable(self.last_staged))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        self.lost |= {change.revision for change in self.staged}
        self.staged = []

    @rule(back=st.integers(0, 12))
    def compact(self, back: int) -> None:
        at = max(0, self.revision - back)
        self.store.compact(at)
        self.compacted = max(self.compacted, at)

    @rule()
    def reopen(self) -> None:
        """Closing commits; what is kept on disk is what was kept in memory."""
        self.run(self.store.close())
        self._committed()
        for watch in self.watches:
            self.end(watch)
        self.watches = []
        if self.path is None:
            self.changes, self.revision, self.compacted = [], 1, 0
        self.store = self.run(RevisionStore.open(self.path, keep_changes=KEEP_CHANGES))
        self.last_staged = self.revision
        self.lost = set()

    def end(self, watch: Watch) -> None:
        assert at_once(_next(watch.subscription)) is None

    @rule(resource_=resources, since=st.integers(0, 40))
    def watch(self, resource_: str, since: int) -> None:
        since = min(since, self.revision + 1)
        if self.compacted <= since <= self.revision:
            subscription = self.store.subscribe(resource_, since=since, limit=WATCH_LIMIT)
            self.watches.append(Watch(subscription, resource_, self.since(resource_, since)))
        else:
            with pytest.raises(CompactedError):
                self.store.subscribe(resource_, since=since, limit=WATCH_LIMIT)

    @precondition(lambda self: self.watches)
    @rule(data=st.data(), count=st.integers(1, 12))
    def read(self, data: st.DataObject, count: int) -> None:
        watch = data.draw(st.sampled_from(self.watches))
        for _ in range(min(count, len(watch.unread))):
            forgotten = watch.unread[0].revision <= self.compacted
            if forgotten or len(watch.unread) - watch.backlog > WATCH_LIMIT:
                with pytest.raises(SlowWatcherError):
                    at_once(_next(watch.subscription))
                self.watches.remove(watch)
                self.end(watch)
                return
            assert at_once(_next(watch.subscription)) == watch.unread.pop(0)
            watch.backlog = max(0, watch.backlog - 1)

    @precondition(lambda self: self.watches)
    @rule(data=st.data())
    def unwatch(self, data: st.DataObject) -> None:
        watch = data.draw(st.sampled_from(self.watches))
        self.watches.remove(watch)
        watch.subscription.close()
        self.end(watch)

    # What is always so

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "store"):
            return
        store = self.store
        assert (store.revision, store.compacted_revision) == (self.revision, self.compacted)
        for resource_ in RESOURCES:
            objects = self.objects(resource_)
            assert store.list(resource_) == objects
            assert [store.get(resource_, obj["metadata"]["name"]) for obj in objects] == objects
            assert store.latest_list(resource_) == self.objects(resource_, staged=True)
            for namespace in NAMESPACES:
                assert store.list(resource_, namespace=namespace) == self.objects(
                    resource_, namespace=namespace
                )
                assert store.latest_list(resource_, namespace=namespace) == self.objects(
                    resource_, namespace=namespace, staged=True
                )
            assert store.changes_since(resource_, self.compacted) == self.since(resource_, self.compacted)
            for change in store.changes_since(resource_, self.compacted):
                if change.new is not None:
                    assert revision_of(change.new) == change.revision
        for watch in self.watches:
            assert watch.subscription.lag == len(watch.unread)
        for revision in self.lost:
            with pytest.raises(StorageError):
                at_once(self.store.durable(revision))


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """What need not wait is done without the loop, on which the store would go on committing."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    raise AssertionError("it waits")


async def _next(subscription: Subscription) -> Change | None:
    return await anext(subscription, None)


StoreMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestStore = StoreMachine.TestCase
