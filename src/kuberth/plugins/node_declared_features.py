"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class NodeDeclaredFeatures(Plugin):
    name = "NodeDeclaredFeatures"
