"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class DynamicResources(Plugin):
    name = "DynamicResources"
