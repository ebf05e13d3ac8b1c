"""The limits of open watches, in total and per client.

In: watches that begin and end. Out: whether one more may begin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from kuberth.https.messages import Request
from kuberth.local.apiserver.refusals import too_many_requests


class WatchLimits:
    """Counts the open watches. A client is a user at an address."""

    def __init__(self, total: int, *, per_client: int) -> None:
        self._total = total
        self._per_client = per_client
        self._open: Counter[tuple[str, str]] = Counter()

    @property
    def watchers(self) -> int:
        return self._open.total()

    def check(self, request: Request) -> None:
        """StatusError 429 if there may be no further watch."""
        if self.watchers >= self._total or self._open[_client(request)] >= self._per_client:
            raise too_many_requests("too many watches; try again later", seconds=1)

    @contextmanager
    def counted(self, request: Request) -> Iterator[None]:
        client = _client(request)
        self._open[client] += 1
        try:
            yield
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]


def _client(request: Request) -> tuple[str, str]:
    return request.address, request.user.name
