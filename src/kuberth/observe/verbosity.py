"""How much is told of every pod, level by level as kube-scheduler's -v has it and in its words.

In: `level`, set once by whoever sets up logging. Out: log records whose objects are fields, for any handler.
A hot path asks for the level first, one comparison of integers, so that telling nothing costs nothing:

    if verbosity.level >= 3:
        verbosity.tell(3, "Attempting to schedule pod", pod=pod)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

level: int = 0

SCORES_LEVEL: Final = 4
"""From here on the scores of the chosen node are told,"""
ALL_SCORES_LEVEL: Final = 10
"""from here on those of every node, as upstream does."""

NO_FIT: Final = "Unable to schedule pod; no fit; waiting"

logger = logging.getLogger(__name__)


def tell(at_level: int, message: str, /, **fields: Any) -> None:
    """One record from the caller's line; a field is a plain value or an object with metadata."""
    logger.info(message, extra={"v": at_level, "fields": fields}, stacklevel=2)


class Scores(Protocol):
    """By plugin an entry per node, and the sums."""

    @property
    def by_plugin(self) -> Any: ...
    @property
    def totals(self) -> Any: ...


def tell_scores(pod: object, name_of: Callable[[int], str], scores: Scores, best: int) -> None:
    """What each plugin gave the node at position `best`, or from level 10 on every node, and the sums."""
    everybody = level >= ALL_SCORES_LEVEL
    told_at = ALL_SCORES_LEVEL if everybody else SCORES_LEVEL
    positions = range(len(scores.totals)) if everybody else (best,)
    for position in positions:
        for plugin, of_nodes in scores.by_plugin.items():
            tell(
                told_at,
                "Plugin scored node for pod",
                pod=pod,
                plugin=plugin,
                node=name_of(position),
                score=int(of_nodes[position]),
            )
    for position in positions:
        tell(
            told_at,
            "Calculated node's final score for pod",
            pod=pod,
            node=name_of(position),
            score=int(scores.totals[position]),
        )
