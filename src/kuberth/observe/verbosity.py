"""kube-scheduler's log levels (-v) and log messages for every pod.

In: `level`, set once when logging is set up. Out: log records whose objects are fields, for any handler.
A hot path compares the level first, so that a disabled level costs one comparison of integers:

    if verbosity.level >= 3:
        verbosity.log(3, "Attempting to schedule pod", pod=pod)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

level: int = 0

SCORES_LEVEL: Final = 4
"""The level from which the scores of the chosen node are logged."""
ALL_SCORES_LEVEL: Final = 10
"""The level from which the scores of every node are logged, as upstream does."""

NO_FIT: Final = "Unable to schedule pod; no fit; waiting"

logger = logging.getLogger(__name__)


def log(at_level: int, message: str, /, **fields: Any) -> None:
    """Log one record with the caller's line; a field is a plain value or an object with metadata."""
    logger.info(message, extra={"v": at_level, "fields": fields}, stacklevel=2)


class Scores(Protocol):
    """Scores by plugin and node, and their sums."""

    @property
    def by_plugin(self) -> Any: ...
    @property
    def totals(self) -> Any: ...


def log_scores(pod: object, name_of: Callable[[int], str], scores: Scores, best: int) -> None:
    """Log the scores of the node at position `best`, from level 10 on those of every node, and the sums."""
    all_nodes = level >= ALL_SCORES_LEVEL
    at_level = ALL_SCORES_LEVEL if all_nodes else SCORES_LEVEL
    positions = range(len(scores.totals)) if all_nodes else (best,)
    for position in positions:
        for plugin, of_nodes in scores.by_plugin.items():
            log(
                at_level,
                "Plugin scored node for pod",
                pod=pod,
                plugin=plugin,
                node=name_of(position),
                score=int(of_nodes[position]),
            )
    for position in positions:
        log(
            at_level,
            "Calculated node's final score for pod",
            pod=pod,
            node=name_of(position),
            score=int(scores.totals[position]),
        )
