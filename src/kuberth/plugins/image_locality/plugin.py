"""ImageLocality: prefers nodes that already have the pod's images.

A large image that many nodes have counts most: its size is scaled by the share of nodes that have it, so that
pods do not pile up on the first node that pulled the image.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kuberth.api.core import Pod
from kuberth.cluster.nodes import Nodes
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import ScorePlugin, Scores
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.scores import MAX_NODE_SCORE
from kuberth.framework.status import SKIP, Status

_MEBIBYTE: Final = 1024 * 1024
MIN_BYTES: Final = 23 * _MEBIBYTE
"""Below this total size of images, the score is 0."""
MAX_BYTES_PER_CONTAINER: Final = 1000 * _MEBIBYTE
"""The size for the full score."""


class ImageLocality(ScorePlugin):
    name = "ImageLocality"
    inputs = Inputs({"spec.containers", "spec.init_containers", "spec.volumes"}, score=DependsOn.ANYTHING)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Scores | Status:
        table = nodes.table
        if state.scores_bare_nodes:
            return SKIP
        if not table.images.are_known:
            return SKIP
        images = [each.image for each in (*pod.spec.init_containers, *pod.spec.containers)]
        images += [each.image.reference for each in pod.spec.volumes if each.image is not None]
        columns = [table.image_column(normalized_image_name(image)) for image in images]
        if not any(column.node_count for column in columns):
            return SKIP
        found = np.zeros(len(nodes), np.int64)
        for column in columns:
            spread = column.node_count / table.node_count
            found += (nodes.take(column.size_bytes).astype(np.float64) * spread).astype(np.int64)
        # As upstream, image volumes add to the found size and not to the limit.
        limit = MAX_BYTES_PER_CONTAINER * (len(pod.spec.init_containers) + len(pod.spec.containers))
        counted = np.where(found < MIN_BYTES, MIN_BYTES, np.minimum(found, limit))
        return MAX_NODE_SCORE * (counted - MIN_BYTES) // (limit - MIN_BYTES)


def normalized_image_name(image: str) -> str:
    """The name with the default tag if it has none; a colon before the last slash is a registry's port."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
