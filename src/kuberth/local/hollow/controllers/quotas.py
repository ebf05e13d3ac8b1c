"""Recounts quotas every five minutes, as kube-controller-manager does, in case a status was overwritten.

In: quotas; the server updates their counts with every other write. Out: empty patches, at which the server
recounts.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import name_of, namespace_of
from kuberth.local.apiserver.patching.patching import MERGE_PATCH
from kuberth.local.apiserver.rules.quotas import QUOTAS
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.informing import Informers

_LOOK_SECONDS: Final = 300.0


class QuotaController:
    name = "resourcequota"

    def __init__(self, informers: Informers, *, clock: Clock) -> None:
        self._core = informers.core

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for quota in (await self._core.list(QUOTAS))["items"]:
                with suppress(StatusError):  # gone already
                    await self._core.patch(
                        QUOTAS,
                        name_of(quota),
                        {},
                        content_type=MERGE_PATCH,
                        namespace=namespace_of(quota),
                    )
