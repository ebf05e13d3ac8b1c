"""The cluster table: a node is a row, an attribute is a column, and one owner writes.

In: nodes and placed pods from intake, assumed pods from the scheduling cycle. Out: columns of whole
numbers, exactly as Kubernetes computes them, that every plugin reads through a view. A row is stable
while its node lives and is reused after.

    pod:   (unknown) ──assume──▶ assumed ──add (seen on the API)──▶ placed ──remove──▶ (unknown)
               │                    │                                  ▲
               │                    └──forget──▶ (unknown)             │ update
               └──────────────────────────add──────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Node, Pod, Taint
from kuberth.api.quantity import milli_value, value
from kuberth.changes import Changes, Version
from kuberth.cluster.arrays import Column
from kuberth.cluster.counting import RowCounts, resized
from kuberth.cluster.images import ImageColumn, ImageColumns
from kuberth.cluster.interning import InternedColumn
from kuberth.cluster.labels import LabelColumn, LabelColumns
from kuberth.cluster.node_order import NodeOrder, interleaved_by_zone, zone_of
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_groups import PodGroups
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.pod_volumes import Disk
from kuberth.cluster.request_sums import COUNT, NONZERO, Amounts, RequestsBelow, with_pods
from kuberth.cluster.resource_columns import CPU, MAX_RESOURCES, MEMORY, ResourceColumns, SaturatingSums
from kuberth.cluster.selected_labels import SelectedLabels
from kuberth.cluster.terms import Terms
from kuberth.cluster.what_if import LoggedWhatIf, RequestsWhatIf, WhatIf
from kuberth.errors import KuberthError, QuantityError

_FIRST_CAPACITY: Final = 64
FEW_PODS: Final = 8
"""Up to this number of pods in a what-if, putting them on their rows is faster than adding them up."""

K = TypeVar("K")


class PlacementObserver(Protocol):
    """Notified when a pod is placed or removed (not for what-ifs)."""

    def pod_placed(self, info: PodInfo) -> None:
        """Called when the pod counts on its node."""
        ...

    def pod_removed(self, info: PodInfo) -> None:
        """Called when the pod no longer counts on its node."""
        ...


@dataclass(slots=True, eq=False)
class _Placed:
    info: PodInfo
    node_name: str


class ClusterTable:
    """All nodes and placed pods, in columns."""

    def __init__(self) -> None:
        capacity = _FIRST_CAPACITY
        self.slots = 0
        """Rows in use, gaps included; columns are longer."""
        self.live: NDArray[np.bool_] = np.zeros(capacity, np.bool_)
        """bool[row]: whether the row holds a node."""
        self.names: list[str] = []
        """The node's name per row; empty for a gap."""
        self._resources = ResourceColumns(capacity, requests_of=self._requests_of, changed=self._touch)
        self.resources: Mapping[str, int] = self._resources.index
        """Resource name to row of `allocatable` and `requested`; only resources that at least one node
        offers."""
        self.allocatable: Column = self._resources.allocatable
        """[resource, row]: allocatable amounts of nodes, in thousandths of a core, bytes, or units."""
        self.requested: Column = self._resources.requested
        """[resource, row]: sums of the pods' requests, in the same units."""
        self._nonzero_sums = SaturatingSums()
        self.nonzero_requested: Column = np.zeros((2, capacity), np.int64)
        """[CPU or MEMORY, row]: like `requested`, with a default for containers without a request."""
        self.allowed_pods: Column = np.zeros(capacity, np.int64)
        """int64[row]: the maximum number of pods, `pods` in the node's allocatable."""
        self.pod_count: Column = np.zeros(capacity, np.int64)
        """int64[row]: the number of pods, including assumed ones."""
        self.unschedulable: NDArray[np.bool_] = np.zeros(capacity, np.bool_)
        """bool[row]: spec.unschedulable of the node."""
        self.taints: InternedColumn[tuple[Taint, ...]] = InternedColumn(capacity, ())
        """`values[ids[row]]` is the node's list of taints, without timestamps."""
        self.declared_features: InternedColumn[frozenset[str]] = InternedColumn(capacity, frozenset())
        """`values[ids[row]]` is the set of the node's declared features."""
        self.row_generation: Column = np.zeros(capacity, np.int64)
        """int64[row]: `generation` of the last write to the row, by node, by pod or by a what-if."""
        self.settled_generation: Column = np.zeros(capacity, np.int64)
        """int64[row]: the same without what-ifs, which restore the row, so that results cached outside of
        them stay valid."""
        self.changes: Changes[int] = Changes()
        """The rows whose `settled_generation` has changed recently."""
        self.counted_changes: Changes[int] = Changes()
        """The changed rows in which a count changed, and not only the version of a pod."""
        self.node_generation: Column = np.zeros(capacity, np.int64)
        """int64[row]: `generation` of the last write to the row's own node."""
        self.generation = 0
        """Grows with every write to any row."""
        self.selection = Version()
        """Its version grows whenever a node is added or removed, or its labels or taints change."""

        self.labels = LabelColumns(capacity)
        """The label columns; ask `label_column` for one."""
        self.images = ImageColumns(capacity)
        """The image columns; ask `image_column` for one."""
        self.selected_labels = SelectedLabels()
        """The labels of pods that selectors use."""
        self.terms = Terms(self.labels, self.selected_labels)
        """Counts of placed pods by the terms that match them."""
        self.pod_groups = PodGroups()
        """The pod groups that pods name in `spec.schedulingGroup`."""
        self.claims: dict[str, RowCounts] = {}
        """Pods per row that use a claim, by namespace/name of the claim."""
        self.device_claims: dict[str, RowCounts] = {}
        """Pods per row whose claim's devices use resources of the node, by namespace/name of the claim."""
        self.disks: dict[Disk, RowCounts] = {}
        """Volumes of the pods per row that name a disk."""
        self._priorities: dict[int, RowCounts] = {}
        self._requests_below = RequestsBelow()
        self.is_supposing = False
        """Whether a what-if is open, so that results must not be cached."""
        self._ports: dict[tuple[str, int], dict[str, RowCounts]] = {}
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._nodes: list[Node | None] = []
        self._pods_at: list[dict[str, PodInfo]] = []
        self._placed: dict[str, _Placed] = {}
        self._without_node: dict[str, dict[str, PodInfo]] = {}
        self._order: NodeOrder | None = None
        self._order_may_differ = False
        self._observers: list[PlacementObserver] = []
        self._assumed: dict[str, PodInfo] = {}
        self.problems: dict[str, str] = {}
        """Nodes with a part that cannot be parsed, and the problem; that part counts as zero."""

    # Views

    def all_nodes(self) -> Nodes:
        """The view of the whole table, in which positions are rows; it may have gaps."""
        return Nodes(self, slice(0, self.slots))

    def nodes_named(self, names: Iterable[str]) -> Nodes:
        """A view of the existing nodes with these names."""
        rows = sorted(row for name in names if (row := self._rows.get(name)) is not None)
        return Nodes(self, np.array(rows, np.int64))

    def node_named(self, name: str) -> NodeRow | None:
        """The node with this name; None if there is none."""
        row = self._rows.get(name)
        return None if row is None else NodeRow(self, row)

    def row_of(self, name: str) -> int | None:
        """The row of the node with this name; None if there is none."""
        return self._rows.get(name)

    def node_at(self, row: int) -> Node:
        """The node's object at a row; LookupError for a gap."""
        node = self._nodes[row]
        if node is None:
            raise LookupError(f"row {row} of the cluster table holds no node")
        return node

    def pods_at(self, row: int) -> Iterable[PodInfo]:
        """The pods on a row, including assumed ones."""
        return self._pods_at[row].values()

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return len(self._rows)

    @property
    def placed_count(self) -> int:
        """The number of pods with a node, including assumed ones."""
        return len(self._placed)

    @property
    def assumed_count(self) -> int:
        """The number of assumed pods."""
        return len(self._assumed)

    def order(self) -> NDArray[np.int64]:
        """All live rows in the order in which nodes are tried: zones alternate."""
        return self.node_order().rows

    def node_order(self) -> NodeOrder:
        """The cyclic order of nodes; a new object whenever the order changes."""
        if self._order is None or self._order_may_differ:
            nodes = ((row, node) for row, node in enumerate(self._nodes) if node is not None)
            rows = interleaved_by_zone(nodes)
            if self._order is None or not np.array_equal(rows, self._order.rows):
                self._order = NodeOrder(rows, self.slots)
            self._order_may_differ = False
        return self._order

    def resource_index(self, resource: str) -> int | None:
        """The row of `allocatable` and `requested` for a resource; None if no node offers it."""
        return self.resources.get(resource)

    def label_column(self, key: str) -> LabelColumn:
        """The column of a label key; created when it is first requested, and kept."""
        return self.labels.column(key)

    def image_column(self, name: str) -> ImageColumn:
        """The column of an image name; created when it is first requested, and kept."""
        return self.images.column(name)

    def port_users(self, protocol: str, port: int) -> Mapping[str, RowCounts]:
        """By address: the number of pods per row that use this host port."""
        return self._ports.get((protocol, port), {})

    def rows_with_priority_below(self, priority: int) -> NDArray[np.bool_]:
        """bool[row] for rows 0 to `slots`: whether they hold a pod of lower priority."""
        mask = np.zeros(self.slots, np.bool_)
        for held, counts in self._priorities.items():
            if held < priority:
                mask[counts.rows()] = True
        return mask

    def requests_below(self, priority: int) -> Amounts:
        """Per row, as long as the columns: the requests of pods of lower priority. Read-only."""
        return self._requests_below.of(self, priority, keep=not self.is_supposing)

    def amounts_at(self, rows: NDArray[np.int64]) -> Amounts:
        """The requests of the pods on some rows: a copy."""
        return np.concatenate(
            (self.requested[:, rows], self.nonzero_requested[:, rows], self.pod_count[np.newaxis, rows])
        )

    def changed_since(self, generation: int) -> NDArray[np.int64]:
        """The rows that changed after `generation`."""
        return np.flatnonzero(self.row_generation[: self.slots] > generation)

    # Nodes

    def set_node(self, node: Node) -> int:
        """Add a node or its new version; returns its row."""
        name = node.metadata.name
        row = self._rows.get(name)
        if row is None:
            row = self._new_row(name)
        old = self._nodes[row]
        self._nodes[row] = node
        if old is None or old.metadata.labels != node.metadata.labels or old.spec.taints != node.spec.taints:
            self.selection.version += 1
        self._write_allocatable(row, node)
        self.unschedulable[row] = node.spec.unschedulable
        self.taints.set(row, _without_times(node.spec.taints))
        self.declared_features.set(row, frozenset(node.status.declared_features))
        self.images.set(row, node.status.images)
        if old is None or old.metadata.labels != node.metadata.labels:
            self.labels.set(row, node.metadata.labels)
            if old is None or zone_of(old) != zone_of(node):
                self._order_may_differ = True
        if old is None:
            for info in self._without_node.pop(name, {}).values():
                self.put(info, row)
        self._touch(row)
        self.node_generation[row] = self.generation
        return row

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods are remembered until they are removed or the node returns."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        leftover = dict(self._pods_at[row])
        for info in leftover.values():
            self.take(info, row)
        if leftover:
            self._without_node[name] = leftover
        self.selection.version += 1
        self.live[row] = False
        self.names[row] = ""
        self._nodes[row] = None
        self._offer(row, {})
        self.allowed_pods[row] = 0
        self.unschedulable[row] = False
        self.taints.clear(row)
        self.declared_features.clear(row)
        self.labels.clear(row)
        self.images.clear(row)
        self.problems.pop(name, None)
        self._order_may_differ = True
        self._touch(row)
        self.node_generation[row] = self.generation
        self._free.append(row)

    def _new_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = self.slots
            if row == len(self.live):
                self._grow(2 * row)
            self.slots += 1
            self.names.append(name)
            self._nodes.append(None)
            self._pods_at.append({})
        self._rows[name] = row
        self.live[row] = True
        self._order_may_differ = True
        return row

    def _grow(self, capacity: int) -> None:
        self.live = resized(self.live, capacity)
        self.nonzero_requested = resized(self.nonzero_requested, capacity)
        self.allowed_pods = resized(self.allowed_pods, capacity)
        self.pod_count = resized(self.pod_count, capacity)
        self.unschedulable = resized(self.unschedulable, capacity)
        self.row_generation = resized(self.row_generation, capacity)
        self.settled_generation = resized(self.settled_generation, capacity)
        self.node_generation = resized(self.node_generation, capacity)
        for columns in (self._resources, self.taints, self.declared_features, self.labels, self.images):
            columns.grow(capacity)
        self.allocatable, self.requested = self._resources.allocatable, self._resources.requested

    def _write_allocatable(self, row: int, node: Node) -> None:
        self.allowed_pods[row] = 0
        self.problems.pop(node.metadata.name, None)
        offered: dict[str, int] = {}
        for resource, quantity in node.status.allocatable.items():
            try:
                amount = milli_value(quantity) if resource == "cpu" else value(quantity)
            except QuantityError as exc:
                self.problems[node.metadata.name] = f"allocatable {resource}: {exc}"
                continue
            if resource == "pods":
                self.allowed_pods[row] = amount
            else:
                offered[resource] = amount
        if refused := self._offer(row, offered):
            some = ", ".join(sorted(refused)[:3])
            self.problems[node.metadata.name] = (
                f"allocatable {some}: nodes offer more than {MAX_RESOURCES} resources"
            )

    def _offer(self, row: int, amounts: Mapping[str, int]) -> list[str]:
        """Set what the row's node offers; returns the resources beyond the maximum number."""
        refused = self._resources.offer(row, amounts)
        # Another resource may have a new matrix. Plain attributes: plugins read them all the time.
        self.allocatable, self.requested = self._resources.allocatable, self._resources.requested
        return refused

    def _requests_of(self, resource: str) -> Iterator[tuple[int, int]]:
        """The row and the amount of every pod in the table that requests a resource."""
        for row, pods in enumerate(self._pods_at):
            for info in pods.values():
                if amount := info.request.scalars.get(resource):
                    yield row, amount

    # Pods

    def assume_pod(self, info: PodInfo) -> None:
        """Assume a pod: count it on the node in its spec before the API confirms it."""
        if info.uid in self._placed:
            raise KuberthError(f"pod {info.key} is already in the cluster table, it cannot be assumed")
        self._assumed[info.uid] = info
        self._place(info)
        if info.group:
            self.pod_groups.assume(info)

    def forget_pod(self, uid: str) -> bool:
        """Undo an assumption. False if the pod is gone, or is bound after all."""
        if uid not in self._assumed:
            return False
        placed = self._placed[uid]
        self._remove(placed)
        if placed.info.group:
            self.pod_groups.forget(placed.info)
        return True

    def add_pod(self, info: PodInfo) -> None:
        """Add a pod that is bound according to the API, or confirm or correct an assumption."""
        placed = self._placed.get(info.uid)
        if placed is not None:
            self._remove(placed)
        self._place(info)
        if info.group:
            self.pod_groups.assign(info)

    update_pod = add_pod

    def renew_pod(self, pod: Pod) -> bool:
        """Like `add_pod` for a pod that is known with the same requests; otherwise only return False."""
        placed = self._placed.get(pod.metadata.uid)
        if placed is None or placed.node_name != pod.spec.node_name:
            return False
        old = placed.info
        info = old.renewed(pod)
        if info is None:
            return False
        placed.info = info
        self._assumed.pop(info.uid, None)
        row = self._rows.get(placed.node_name)
        if row is None:
            self._without_node[placed.node_name][info.uid] = info
        else:
            self._pods_at[row][info.uid] = info
            self.terms.renew(old, info, row)
            self.generation += 1
            self.row_generation[row] = self.settled_generation[row] = self.generation
            self.changes.note(row)
        if info.group:
            self.pod_groups.assign(info)
        for observer in self._observers:
            observer.pod_removed(old)
            observer.pod_placed(info)
        return True

    def remove_pod(self, uid: str) -> None:
        placed = self._placed.get(uid)
        if placed is not None:
            self._remove(placed)
            if placed.info.group:
                self.pod_groups.leave(placed.info)

    def is_assumed(self, uid: str) -> bool:
        """Whether the pod with this UID is assumed."""
        return uid in self._assumed

    def assumed_pods(self) -> list[PodInfo]:
        """All assumed pods. Other threads may call it: the list is created in one step."""
        return list(self._assumed.values())

    def placed(self, uid: str) -> PodInfo | None:
        """The placed pod with this UID; None if it has no node."""
        found = self._placed.get(uid)
        return None if found is None else found.info

    def placed_pods(self) -> Iterator[PodInfo]:
        """All placed pods, including assumed ones."""
        return (placed.info for placed in self._placed.values())

    def observe(self, observer: PlacementObserver) -> None:
        """Notify `observer` of every placement from now on, and of the present ones at once."""
        self._observers.append(observer)
        for placed in self._placed.values():
            observer.pod_placed(placed.info)

    def unobserve(self, observer: PlacementObserver) -> None:
        """Stop notifying it."""
        self._observers.remove(observer)

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Set the labels of a namespace, for terms that select namespaces; None when it is deleted."""
        self.terms.set_namespace(name, labels)

    def _place(self, info: PodInfo) -> None:
        node_name = info.node_name
        self._placed[info.uid] = _Placed(info, node_name)
        row = self._rows.get(node_name)
        if row is None:
            self._without_node.setdefault(node_name, {})[info.uid] = info
        else:
            self.put(info, row)
            self.settle(row)
        for observer in self._observers:
            observer.pod_placed(info)

    def _remove(self, placed: _Placed) -> None:
        info = placed.info
        del self._placed[info.uid]
        self._assumed.pop(info.uid, None)
        row = self._rows.get(placed.node_name)
        if row is None:
            waiting = self._without_node[placed.node_name]
            del waiting[info.uid]
            if not waiting:
                del self._without_node[placed.node_name]
        else:
            self.take(info, row)
            self.settle(row)
        for observer in self._observers:
            observer.pod_removed(info)

    def put(self, info: PodInfo, row: int) -> None:
        """Count a pod on a row; used for placements and what-ifs."""
        self._pods_at[row][info.uid] = info
        self._count(info, row, 1)

    def take(self, info: PodInfo, row: int) -> None:
        """Stop counting a pod on a row."""
        del self._pods_at[row][info.uid]
        self._count(info, row, -1)

    def reorder(self, row: int, pods: Iterable[PodInfo]) -> None:
        """Set the order of the pods of a row; `pods` are those that the row has."""
        at = self._pods_at[row]
        at.clear()
        at.update((info.uid, info) for info in pods)

    def set_amounts(self, amounts: Amounts, rows: NDArray[np.int64]) -> None:
        """Set the amounts of distinct rows, independently of their pods, for a what-if."""
        self.requested[:, rows] = amounts[: len(self.requested)]
        self.nonzero_requested[:, rows] = amounts[NONZERO]
        self.pod_count[rows] = amounts[COUNT]
        self.generation += 1
        self.row_generation[rows] = self.generation

    def _count(self, info: PodInfo, row: int, sign: int) -> None:
        request = info.request
        self._resources.count(request, row, sign)
        sums, nonzero = self._nonzero_sums, self.nonzero_requested
        sums.add(nonzero, CPU, row, sign * request.nonzero_milli_cpu)
        sums.add(nonzero, MEMORY, row, sign * request.nonzero_memory)
        self.pod_count[row] = self.pod_count.item(row) + sign
        for port in info.host_ports:
            by_address = self._ports.setdefault((port.protocol, port.port), {})
            _count_in(by_address, port.ip, row, sign)
            if not by_address:
                del self._ports[port.protocol, port.port]
        for claim in info.volume_claims:
            _count_in(self.claims, claim, row, sign)
        for claim in info.device_claims:
            _count_in(self.device_claims, claim, row, sign)
        for disk in info.disks:
            _count_in(self.disks, disk, row, sign)
        _count_in(self._priorities, info.priority, row, sign)
        self.terms.add(info, row, sign)
        self.generation += 1
        self.row_generation[row] = self.generation

    def _touch(self, row: int) -> None:
        self.generation += 1
        self.row_generation[row] = self.generation
        self.settle(row)

    def settle(self, row: int) -> None:
        """Mark the row as changed for all caches."""
        self.settled_generation[row] = self.generation
        self.changes.note(row)
        self.counted_changes.note(row)

    # What if

    @contextmanager
    def what_if(self) -> Iterator[WhatIf]:
        """Change rows temporarily; leaving the block undoes every change."""
        question = WhatIf(self)
        with self._undone(question):
            yield question

    @contextmanager
    def logged_what_if(self) -> Iterator[LoggedWhatIf]:
        """Change rows temporarily with a change log, so that caches follow the changes and their undoing."""
        question = LoggedWhatIf(self)
        try:
            yield question
        finally:
            question.undo()

    @contextmanager
    def what_if_requests(self, rows: NDArray[np.int64]) -> Iterator[RequestsWhatIf]:
        """Change sums of requests on many distinct rows temporarily; leaving the block undoes everything."""
        question = RequestsWhatIf(self, rows)
        with self._undone(question):
            yield question

    @contextmanager
    def what_if_with(self, pods: Mapping[int, Sequence[PodInfo]], *, requests_alone: bool) -> Iterator[None]:
        """Count these pods on their rows temporarily.

        `requests_alone`: the caller reads only the number of pods and the sums of their requests; thousands
        of pods are then added up instead of being put on their rows.
        """
        if requests_alone and sum(map(len, pods.values())) > FEW_PODS:
            rows = np.fromiter(pods, np.int64, len(pods))
            amounts = with_pods(self.amounts_at(rows), [*pods.values()], self)
            if amounts is not None:
                with self.what_if_requests(rows) as sums:
                    sums.set(amounts, rows)
                    yield
                return
        with self.what_if() as what_if:
            for row, added in pods.items():
                for info in added:
                    what_if.add_pod(info, row)
            yield

    @contextmanager
    def _undone(self, question: WhatIf | RequestsWhatIf) -> Iterator[None]:
        was_supposing, self.is_supposing = self.is_supposing, True
        try:
            yield
        finally:
            question.undo()
            self.is_supposing = was_supposing


def _without_times(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints without what scheduling ignores, so that equal lists share one id."""
    return tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in taints)


def _count_in(counts_by: dict[K, RowCounts], key: K, row: int, number: int) -> None:
    counts = counts_by.get(key)
    if counts is None:
        counts = counts_by[key] = RowCounts()
    counts.add(row, number)
    if counts.total == 0:
        del counts_by[key]
