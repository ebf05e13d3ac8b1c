"""Writes the condition of a PodGroup in the background.

In: the outcome of a group's cycle. Out: a patch of the PodGroup's status, if it changes. A group that was
scheduled once stays scheduled, even if later pods do not fit.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from kuberth.api.scheduling import PodGroup
from kuberth.client.protocol import Api
from kuberth.clock import Clock
from kuberth.errors import ApiError, ConflictError, NotFoundError
from kuberth.framework.handle import Spawner
from kuberth.informers.store import Store
from kuberth.text.timestamps import timestamp

logger = logging.getLogger(__name__)

SCHEDULED: Final = "PodGroupScheduled"


@dataclass(frozen=True, slots=True)
class PodGroupStatusWriter:
    """Writes the condition `PodGroupScheduled`."""

    api: Api
    spawn: Spawner
    clock: Clock
    groups: Store[PodGroup]

    def write(self, key: str, *, is_scheduled: bool, reason: str, message: str) -> None:
        """Write the outcome of a group's attempt to its status, if the group is known."""
        group = self.groups.get_by_key(key)
        if group is None:
            logger.info("pod group %s is gone; its status is not written", key)
            return
        old = next((each for each in group.status.conditions if each.type == SCHEDULED), None)
        status, generation = str(is_scheduled), group.metadata.generation
        if old is not None:
            if old.status == "True" and not is_scheduled:
                return
            known = (old.status, old.reason, old.message, old.observed_generation)
            if known == (status, reason, message, generation):
                return
        condition: dict[str, Any] = {
            "type": SCHEDULED,
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": generation,
        }
        if old is None or old.status != status:
            condition["lastTransitionTime"] = timestamp(self.clock.now_ns())
        self.spawn(self._patch(group, condition), name=f"status of pod group {key}")

    async def _patch(self, group: PodGroup, condition: dict[str, Any]) -> None:
        metadata = group.metadata
        try:
            await self.api.patch(
                PodGroup,
                metadata.name,
                {"metadata": {"uid": metadata.uid}, "status": {"conditions": [condition]}},
                namespace=metadata.namespace,
                subresource="status",
            )
        except (NotFoundError, ConflictError):  # deleted, or recreated under the same name
            logger.debug("pod group %s/%s is gone", metadata.namespace, metadata.name)
        except ApiError:
            logger.exception(
                "the status of pod group %s/%s could not be written", metadata.namespace, metadata.name
            )
