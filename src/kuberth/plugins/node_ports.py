"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class NodePorts(Plugin):
    name = "NodePorts"
