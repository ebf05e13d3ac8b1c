"""The victims of a pod group, anywhere in the cluster: as few and of as low priority as possible.

In: a group that does not fit, and a way to try it again on the current table. Out: the victims, or why there
are none. All pods of lower priority are removed in a what-if; then, by descending priority, each pod is added
again unless the group needs its place. Pods of a group that is only disrupted as a whole are handled
together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kuberth.api.scheduling import PodGroup
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.what_if import LoggedWhatIf
from kuberth.framework.status import Status
from kuberth.informers.store import Store
from kuberth.plugins.default_preemption.budgets import Budgets
from kuberth.plugins.default_preemption.plans import start_time

NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
AS_A_WHOLE: Final = "PodGroup"
"""The disruption mode of groups whose pods are evicted together or not at all."""

Unit = Sequence[PodInfo]
"""Pods that are evicted together; usually a single pod."""


@dataclass(frozen=True, slots=True)
class GroupVictims:
    """Finds victims for groups, over one cluster table."""

    cluster: ClusterTable
    groups: Store[PodGroup]
    budgets: Budgets

    def find(
        self, group: PodGroup, what_if: LoggedWhatIf, try_again: Callable[[], Status], *, together: bool
    ) -> Sequence[PodInfo] | Status:
        """The victims, by descending priority.

        `together`: adding a pod cannot help the group, so several may be added at once.
        """
        priority = group.spec.priority or 0
        units = [unit for unit in self._units() if self._priority(unit) < priority]
        if not units:
            return Status.unresolvable(NO_VICTIMS)
        self._change(what_if.remove_pod, units)
        status = try_again()
        if not status.is_success:
            return status
        units.sort(key=self._importance)
        violating, others = self.budgets.split_units(units)
        victims = self._victims_among([*violating, *others], what_if, try_again, together=together)
        victims.sort(key=self._importance)
        return [info for unit in victims for info in unit]

    def _victims_among(
        self, units: Sequence[Unit], what_if: LoggedWhatIf, try_again: Callable[[], Status], *, together: bool
    ) -> list[Unit]:
        """The units of `units`, all of which were removed, that cannot be added again one after the other.

        If the group fits with all of them added, it fits at each step: only few are victims, and these are
        found by bisection.
        """
        if not together:
            return [unit for unit in units if not self._can_return([unit], what_if, try_again)]
        if self._can_return(units, what_if, try_again):
            return []
        if len(units) == 1:
            return list(units)
        middle = len(units) // 2
        first = self._victims_among(units[:middle], what_if, try_again, together=True)
        return [*first, *self._victims_among(units[middle:], what_if, try_again, together=True)]

    def _can_return(
        self, units: Sequence[Unit], what_if: LoggedWhatIf, try_again: Callable[[], Status]
    ) -> bool:
        """Whether the group fits with these added; if not, they are removed again."""
        self._change(what_if.add_pod, units)
        fits = try_again().is_success
        if not fits:
            self._change(what_if.remove_pod, units)
        return fits

    def _change(self, change: Callable[[PodInfo, int], object], units: Sequence[Unit]) -> None:
        """Add or remove the pods in a what-if."""
        for unit in units:
            for info in unit:
                row = self.cluster.row_of(info.node_name)
                assert row is not None
                change(info, row)

    def _units(self) -> list[Unit]:
        """All pods on nodes, grouped by what is evicted together."""
        together: dict[str, list[PodInfo]] = {}
        for row in self.cluster.order().tolist():
            for info in self.cluster.pods_at(row):
                whole = self._whole_group(info)
                together.setdefault(whole.metadata.uid if whole else info.uid, []).append(info)
        return list(together.values())

    def _whole_group(self, info: PodInfo) -> PodGroup | None:
        """The pod's group, if it is only disrupted as a whole."""
        group = self.groups.get_by_key(info.group) if info.group else None
        return group if group is not None and group.spec.disruption_mode == AS_A_WHOLE else None

    def _priority(self, unit: Unit) -> int:
        whole = self._whole_group(unit[0])
        return unit[0].priority if whole is None else whole.spec.priority or 0

    def _importance(self, unit: Unit) -> tuple[object, ...]:
        """A sort key: by priority; groups before single pods, large ones first; then by start time."""
        in_group = bool(unit[0].group)
        started = min(start_time(info) for info in unit)
        return -self._priority(unit), not in_group, -len(unit) if in_group else 0, started
