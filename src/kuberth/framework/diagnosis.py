"""Why a pod fits nowhere: the verdict on every node, kept as codes and shown as text.

In: verdicts of the Filter plugins, the message of PreFilter or PostFilter. Out: the plugins that
rejected the pod (for the queue's hints), the status of any node, and the FailedScheduling message.
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
"""How a node counts that was not looked at: no preemption is tried there."""


class Diagnosis:
    """The statuses of all nodes that do not take the pod.

    Statuses come in two forms: explicitly by node name, and as blocks of rows judged by one plugin.
    """

    def __init__(self) -> None:
        self._explicit: dict[str, Status] = {}
        self._blocks: list[tuple[str, NDArray[np.int64], NDArray[np.int64], Verdict]] = []
        self.absent_status: Status = ABSENT
        """What counts for nodes that were not looked at."""
        self.unschedulable_plugins: set[str] = set()
        """Plugins that rejected the pod on any node; their hints bring it back."""
        self.pending_plugins: set[str] = set()
        """Those of them that answered Pending."""
        self.pre_filter: Status | None = None
        """Set if PreFilter rejected the pod for all nodes; then no node was looked at."""
        self.considered: frozenset[str] | None = None
        """The only nodes looked at, if PreFilter narrowed the search."""
        self.post_filter: Status | None = None
        """What PostFilter said in the end, if it was asked."""

    def set(self, node_name: str, status: Status) -> None:
        """The status of one node, by name."""
        self._explicit[node_name] = status
        self._note_plugin(status)

    def add_block(
        self, plugin: str, rows: NDArray[np.int64], verdict: Verdict, codes: NDArray[np.int64]
    ) -> None:
        """`plugin` rejected `rows`, with `codes` of `verdict` for each."""
        self._blocks.append((plugin, rows, codes, verdict))
        for code in distinct(codes):
            self._note_plugin(verdict.status(int(code)).by(plugin))

    def _note_plugin(self, status: Status) -> None:
        if not status.plugin:
            return
        if status.is_rejected:
            self.unschedulable_plugins.add(status.plugin)
        if status.code == Code.PENDING:
            self.pending_plugins.add(status.plugin)

    def reject_all(self, status: Status) -> None:
        """PreFilter rejected the pod, whatever the node."""
        self.pre_filter = self.absent_status = status
        self._note_plugin(status)

    def narrow(self, node_names: frozenset[str], *, by: Iterable[str]) -> None:
        """PreFilter left only these nodes to look at."""
        self.considered = node_names
        names = " ".join(sorted(by))
        self.absent_status = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{names}]")

    def note_plugins(self, plugins: Iterable[str]) -> None:
        """These plugins had a part in it without rejecting a node."""
        self.unschedulable_plugins.update(plugins)

    def counts(self) -> Iterator[tuple[Status, int]]:
        """Every distinct status with the number of nodes that have it."""
        yield from Counter(self._explicit.values()).items()
        for plugin, _rows, codes, verdict in self._blocks:
            for code, number in counted(codes):
                yield verdict.status(code).by(plugin), number

    def rows(self) -> Iterator[tuple[NDArray[np.int64], Status]]:
        """Every block of rows with the status they share."""
        for plugin, rows, codes, verdict in self._blocks:
            for code in distinct(codes):
                yield rows[codes == code], verdict.status(code).by(plugin)

    def status_of(self, node_name: str, *, row: int | None) -> Status:
        """The status of one node; `row` is where it stands in the table, None if it is not there."""
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
        """Statuses given by node name, beside those given by row."""
        return self._explicit

    def __len__(self) -> int:
        return len(self._explicit) + sum(len(rows) for _, rows, _, _ in self._blocks)

    def message(self, total_nodes: int) -> str:
        """`0/5 nodes are available: 3 Insufficient cpu, 2 node(s) ... .` and what preemption said."""
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
    """The pod fits on no node. Raised nowhere: it travels as the cause of a `Status`."""

    def __init__(self, diagnosis: Diagnosis, total_nodes: int) -> None:
        super().__init__(total_nodes)
        self.diagnosis = diagnosis
        """Why."""
        self.total_nodes = total_nodes
        """How many nodes there are, looked at or not."""

    def __str__(self) -> str:
        return self.diagnosis.message(self.total_nodes)
