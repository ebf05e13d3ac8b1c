"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class NodeResourcesFit(Plugin):
    name = "NodeResourcesFit"


class NodeResourcesBalancedAllocation(Plugin):
    name = "NodeResourcesBalancedAllocation"
