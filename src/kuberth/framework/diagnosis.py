"""Why a pod fits nowhere: the verdict on every node, stored as codes and converted to text on demand.

In: verdicts of the Filter plugins, and messages of PreFilter and PostFilter. Out: the plugins that rejected
the pod (for the queue's hints), the status of any node, and the FailedScheduling message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.framework.status import Code, Status
from kuberth.framework.verdict import Verdict, counted, distinct

ABSENT: Final = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
"""The status of nodes that were not evaluated: preemption does not try them."""


class Diagnosis:
    """The statuses of all nodes that are not feasible.

    There are two forms: statuses by node name, and blocks of rows that one plugin rejected.
    """

    def __init__(self) -> None:
        self._explicit: dict[str, Status] = {}
        self._blocks: list[tuple[str, NDArray[np.int64], NDArray[np.int64], Verdict]] = []
        self.absent_status: Status = ABSENT
        """The status of nodes that were not evaluated."""
        self.unschedulable_plugins: set[str] = set()
        """The plugins that rejected the pod on at least one node; their hints requeue it."""
        self.pending_plugins: set[str] = set()
        """The rejecting plugins that returned Pending."""
        self.pre_filter: Status | None = None
        """Set if PreFilter rejected the pod for all nodes, so that none was evaluated."""
        self.considered: frozenset[str] | None = None
        """The evaluated nodes, if PreFilter narrowed the search."""
        self.post_filter: Status | None = None
        """The final message of PostFilter, if it ran."""

    def set(self, node_name: str, status: Status) -> None:
        """The status of one node, by name."""
        self._explicit[node_name] = status
        self._record_plugin(status)

    def add_block(
        self, plugin: str, rows: NDArray[np.int64], verdict: Verdict, codes: NDArray[np.int64]
    ) -> None:
        """Record that `plugin` rejected `rows`, with a code of `verdict` for each."""
        self._blocks.append((plugin, rows, codes, verdict))
        for code in distinct(codes):
            self._record_plugin(verdict.status(int(code)).by(plugin))

    def _record_plugin(self, status: Status) -> None:
        if not status.plugin:
            return
        if status.is_rejected:
            self.unschedulable_plugins.add(status.plugin)
        if status.code == Code.PENDING:
            self.pending_plugins.add(status.plugin)

    def reject_all(self, status: Status) -> None:
        """Record that PreFilter rejected the pod for all nodes."""
        self.pre_filter = self.absent_status = status
        self._record_plugin(status)

    def narrow(self, node_names: frozenset[str], *, by: Iterable[str]) -> None:
        """Record that PreFilter narrowed the search to these nodes."""
        self.considered = node_names
        names = " ".join(sorted(by))
        self.absent_status = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{names}]")

    def record_plugins(self, plugins: Iterable[str]) -> None:
        """Record plugins that contributed without rejecting a node."""
        self.unschedulable_plugins.update(plugins)

    def counts(self) -> Iterator[tuple[Status, int]]:
        """Every distinct status with its number of nodes."""
        yield from Counter(self._explicit.values()).items()
        for plugin, _rows, codes, verdict in self._blocks:
            for code, number in counted(codes):
                yield verdict.status(code).by(plugin), number

    def rows(self) -> Iterator[tuple[NDArray[np.int64], Status]]:
        """Every block of rows with its common status."""
        for plugin, rows, codes, verdict in self._blocks:
            for code in distinct(codes):
                yield rows[codes == code], verdict.status(code).by(plugin)

    def status_of(self, node_name: str, *, row: int | None) -> Status:
        """The status of one node; `row` is its row in the table, or None if it has none."""
        if (explicit := self._explicit.get(node_name)) is not None:
            return explicit
        if row is not None:
            for plugin, rows, codes, verdict in self._blocks:
                found = np.flatnonzero(rows == row)
                if len(found):
                    return verdict.status(int(codes[found[0]])).by(plugin)
        return self.absent_status

    @property
    def explicit(self) -> Mapping[str, Status]:
        """The statuses given by node name, in addition to those given by row."""
        return self._explicit

    def __len__(self) -> int:
        return len(self._explicit) + sum(len(rows) for _, rows, _, _ in self._blocks)

    def message(self, total_nodes: int) -> str:
        """The FailedScheduling message: `0/5 nodes are available: 3 Insufficient cpu, 2 node(s) ... .`,
        followed by that of preemption."""
        text = f"0/{total_nodes} nodes are available:"
        if self.pre_filter is not None and self.pre_filter.reasons:
            text += f" {self.pre_filter.message}."
        else:
            reasons: Counter[str] = Counter()
            for status, number in self.counts():
                for reason in status.reasons:
                    reasons[reason] += number
            if (absent := total_nodes - len(self)) > 0:
                for reason in self.absent_status.reasons:
                    reasons[reason] += absent
            if reasons:
                text += f" {', '.join(sorted(f'{number} {reason}' for reason, number in reasons.items()))}."
        if self.post_filter is not None and self.post_filter.message:
            text += f" {self.post_filter.message}"
        return text


class FitError(Exception):
    """The pod fits on no node.

    Never raised: it is the cause of a `Status`.
    """

    def __init__(self, diagnosis: Diagnosis, total_nodes: int) -> None:
        super().__init__(total_nodes)
        self.diagnosis = diagnosis
        """The reasons."""
        self.total_nodes = total_nodes
        """The number of nodes, evaluated or not."""

    def __str__(self) -> str:
        return self.diagnosis.message(self.total_nodes)
