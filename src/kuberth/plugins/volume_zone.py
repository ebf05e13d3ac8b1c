"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class VolumeZone(Plugin):
    name = "VolumeZone"
