"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class NodeName(Plugin):
    name = "NodeName"
