"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class VolumeBinding(Plugin):
    name = "VolumeBinding"
