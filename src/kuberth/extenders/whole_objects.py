"""Pods and nodes with all their fields, as JSON for extenders.

In: the API. Out: the JSON that kube-scheduler would send. The scheduler's own structs hold only the fields
that scheduling reads (ADR 8). For extenders that are sent whole objects, these are watched a second time in
this form; an object that has not arrived yet is read from the API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from kuberth.api.core import Node, Pod
from kuberth.api.kinds import REGISTRY
from kuberth.api.meta import ObjectMeta
from kuberth.api.pods import UNFINISHED
from kuberth.api.wire import TreeHolder, convert
from kuberth.client.protocol import Api
from kuberth.errors import NotFoundError, WireError
from kuberth.informers.reflector import Reflector
from kuberth.informers.store import Store, is_older

PENDING: Final = f"spec.nodeName=,{UNFINISHED}"

W = TypeVar("W", bound="WholeObject")


class WholeObject(TreeHolder):
    """An object with all of its fields, without its kind and apiVersion, as in Go."""

    __slots__ = ("json", "metadata")

    _unsent: ClassVar[Sequence[str]] = ()
    """Fields of the metadata that kube-scheduler drops, too."""

    def __init__(self, tree: Mapping[str, Any] | None = None, *, metadata: ObjectMeta | None = None) -> None:
        if metadata is not None:  # a deletion may have no object
            self.metadata, self.json = metadata, b"{}"
            return
        if not isinstance(tree, Mapping) or not isinstance(tree.get("metadata"), Mapping):
            raise WireError(f"{type(self).__name__}: no object with metadata")
        self.metadata = convert(ObjectMeta, tree["metadata"])
        sent = {name: part for name, part in tree.items() if name not in ("apiVersion", "kind")}
        sent["metadata"] = {name: part for name, part in tree["metadata"].items() if name not in self._unsent}
        self.json = msgspec.json.encode(sent)

    @property
    def tree(self) -> Mapping[str, Any]:  # type: ignore[override]  # read-only: it is kept as text
        """The whole tree."""
        found: Mapping[str, Any] = msgspec.json.decode(self.json)
        return found


class WholePod(WholeObject):
    __slots__ = ()
    _unsent = ("managedFields",)


class WholeNode(WholeObject):
    __slots__ = ()


REGISTRY.add_holder(WholePod, of=Pod)
REGISTRY.add_holder(WholeNode, of=Node)


class WholeObjects:
    """The pods and nodes that extenders are sent."""

    def __init__(self, api: Api, *, pods: str | None = None, nodes: bool = False) -> None:
        """`pods` is the field selector of the pods to watch; None: pods are read from the API one by one."""
        self._api = api
        self._pods: Store[WholePod] = Store()
        self._nodes: Store[WholeNode] = Store()
        self.reflectors: list[Reflector[Any]] = []
        """The scheduler runs them."""
        if nodes:
            self.reflectors.append(Reflector(api, WholeNode, self._nodes, _ignore))
        if pods is not None:
            self.reflectors.append(Reflector(api, WholePod, self._pods, _ignore, field_selector=pods))

    async def pod(self, pod: Pod) -> bytes:
        """The JSON of the pod, of this version or a newer one; raises NotFoundError if it is gone."""
        metadata = pod.metadata
        found = self._pods.get(metadata.name, namespace=metadata.namespace)
        if found is None or found.metadata.uid != metadata.uid or is_older(found, pod):
            found = await self._api.get(WholePod, metadata.name, namespace=metadata.namespace)
            if found.metadata.uid != metadata.uid:
                raise NotFoundError(f"pod {metadata.namespace}/{metadata.name} was recreated meanwhile")
        return found.json

    async def nodes(self, names: Iterable[str]) -> Sequence[bytes]:
        """The JSON of the nodes of these names that exist, in order."""
        found = []
        for name in names:
            node = self._nodes.get(name)
            try:
                found.append((await self._api.get(WholeNode, name) if node is None else node).json)
            except NotFoundError:
                continue  # deleted since the search
        return found


def _ignore(_old: object, _new: object) -> None:
    """Changes need no handling."""
