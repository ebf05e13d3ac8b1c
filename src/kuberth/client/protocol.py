"""The API protocol that the scheduler uses.

In: verbs on typed objects. Out: objects, watch events, or an `ApiError`. All implementations (HTTP to any API
server, or a cluster in this process) behave the same; tests/contract checks them.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from kuberth.api.core import Binding, Pod
from kuberth.client.writes import Verb, Write, write_of_binding, write_of_object

T = TypeVar("T")


class WatchType(enum.StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    """A bookmark: everything up to this resource version has been delivered."""


class WatchEvent(NamedTuple):
    """A change of an object; for DELETED the object is its last version."""

    type: WatchType
    object: Any
    """The object; None for a bookmark."""
    resource_version: str


class ObjectList(NamedTuple):
    """The objects of a kind at one resource version, from which a watch can start."""

    items: Sequence[Any]
    resource_version: str


class Api(Protocol):
    """List, watch, get and write; inherit from it to get the verbs create, update, patch, bind and delete.

    Kinds are types: the structs of `kuberth.api`, and the result of `kuberth.api.register_kind`.
    """

    async def list(
        self, kind: type[Any], *, resource_version: str = "", field_selector: str = ""
    ) -> ObjectList:
        """List objects.

        `resource_version` "" is the newest state, "0" any state that the server has cached. Any other is the
        oldest acceptable state; code 504 if the server has not reached it. An invalid object is logged by
        name and omitted.
        """
        ...

    def watch(
        self, kind: type[Any], *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[WatchEvent]:
        """Changes after `resource_version`, until the server ends the watch.

        From "" or "0", existing objects come first, as ADDED.
        An object that no longer matches the field selector is DELETED. ApiError with code 410: the version is
        too old, list again. A version from the future yields 410, or nothing until the server has reached it.
        """
        ...

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        """The current version; raises NotFoundError if there is none."""
        ...

    async def write(self, write: Write) -> Any:
        """Perform a write; returns the object as the server stores it, None for a binding or a deletion.

        All verbs below use this method. ConflictError if a precondition fails.
        """
        ...

    # The verbs, the same for every implementation that inherits from this class

    async def create(self, obj: T) -> T:
        """Create an object; AlreadyExistsError if its name is taken."""
        created: T = await self.write(write_of_object(Verb.CREATE, obj))
        return created

    async def update(self, obj: T, *, subresource: str = "") -> T:
        """Replace an object; ConflictError if its resource version is not the current one."""
        updated: T = await self.write(write_of_object(Verb.UPDATE, obj, subresource=subresource))
        return updated

    async def patch(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> T:
        """Apply a strategic merge patch; for registered kinds, whose merge keys are unknown, a JSON merge
        patch.

        A UID or resource version in its metadata is a precondition: ConflictError if it differs.
        """
        patched: T = await self.write(Write(Verb.PATCH, kind, name, namespace, subresource, patch))
        return patched

    async def bind(self, binding: Binding) -> None:
        """Assign a pod to a node; ConflictError if it is assigned or has another UID."""
        await self.write(write_of_binding(binding))

    async def delete(
        self,
        kind: type[Any],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete an object; ConflictError if it has another UID. A pod on a node is only marked as
        terminating."""
        await self.write(
            Write(Verb.DELETE, kind, name, namespace, uid=uid, grace_period_seconds=grace_period_seconds)
        )

    # What only some implementations can do

    steady: bool = False
    """Whether a watch is alive even if it is silent. Others send bookmarks."""
    refused_posts: int = 0
    """How many POST requests the server has rejected as too many (429); the API retries them itself."""

    def share(self, pod: Pod, old: Pod | None) -> None:
        """Let a pod from a watch share equal parts with its last version and with other pods.

        Listed pods share them already. Does nothing if this API does not decode them.
        """
        return

    def post_nowait(
        self, write: Write, *, check: Callable[[], None] | None = None
    ) -> asyncio.Future[None] | None:
        """Create an object or a subresource whose body is `bytes`, without a task or decoding the answer.

        `check` runs right before the request is sent; it raises the ApiError to end with if the request must
        not be sent. Returns None if the request cannot be sent at once (no support, rate limit, credentials
        to be fetched); use `write` instead. Otherwise returns the future of the response: None, or the
        ApiError that `write` would raise. Cancelling it before the request is sent prevents the write;
        afterwards the outcome is unknown.
        """
        return None

    async def add_finalizer(
        self, kind: type[T], name: str, finalizer: str, *, namespace: str = ""
    ) -> T | None:
        """Add a finalizer to the current version without changing any other byte of the object.

        Returns None if this API cannot do that. Raises ConflictError if the object changes meanwhile.
        """
        return None
