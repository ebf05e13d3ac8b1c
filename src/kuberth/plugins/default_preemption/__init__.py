"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class DefaultPreemption(Plugin):
    name = "DefaultPreemption"
