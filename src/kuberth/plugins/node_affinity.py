"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class NodeAffinity(Plugin):
    name = "NodeAffinity"
