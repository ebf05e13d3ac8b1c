"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class NodeUnschedulable(Plugin):
    name = "NodeUnschedulable"
