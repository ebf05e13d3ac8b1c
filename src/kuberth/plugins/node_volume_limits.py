"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class NodeVolumeLimits(Plugin):
    name = "NodeVolumeLimits"
