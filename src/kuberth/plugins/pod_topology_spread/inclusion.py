"""Which nodes count for a constraint, according to its node inclusion policies.

In: a pod and the cluster table. Out: masks over the table's rows; None stands for every row.
"""

from __future__ import annotations

from collections.abc import Iterable

from kuberth.api.core import Pod
from kuberth.api.selectors import required_node_affinity
from kuberth.api.taints import KeyedTolerations
from kuberth.cluster.arrays import Mask
from kuberth.cluster.labels import ABSENT, LabelColumn
from kuberth.cluster.selection import by_taints, meets_required_affinity
from kuberth.cluster.table import ClusterTable
from kuberth.plugins.pod_topology_spread.constraints import Constraint


class Inclusion:
    """The node inclusion policies for one pod, each evaluated at most once."""

    def __init__(self, pod: Pod, table: ClusterTable, *, comparison_operators: bool) -> None:
        self.table = table
        self._pod = pod
        self._comparison_operators = comparison_operators
        self._affinity: Mask | None = None
        self._taints: Mask | None = None

    def mask(self, constraint: Constraint) -> Mask | None:
        """Rows that the constraint's policies include."""
        accepted = self._accepted_by_affinity() if constraint.honors_affinity else None
        if not constraint.honors_taints:
            return accepted
        tolerated = self._tolerated()
        return tolerated if accepted is None else accepted & tolerated

    def has_all(self, labels: Iterable[LabelColumn]) -> Mask:
        """Rows with all of the labels."""
        first, *others = labels
        rows = slice(0, self.table.slots)
        mask: Mask = first.ids[rows] != ABSENT
        for label in others:
            mask &= label.ids[rows] != ABSENT
        return mask

    def _accepted_by_affinity(self) -> Mask | None:
        spec = self._pod.spec
        has_node_affinity = spec.affinity is not None and spec.affinity.node_affinity is not None
        if not spec.node_selector and not has_node_affinity:
            return None
        if self._affinity is None:
            # An invalid term accepts no node here; NodeAffinity rejects the pod for it.
            required = required_node_affinity(self._pod)
            self._affinity = meets_required_affinity(self.table.all_nodes(), required)
        return self._affinity

    def _tolerated(self) -> Mask:
        if self._taints is None:
            tolerations = KeyedTolerations(
                self._pod.spec.tolerations, comparison_operators=self._comparison_operators
            )
            self._taints = by_taints(self.table.all_nodes(), tolerations.cover_all) != 0
        return self._taints
