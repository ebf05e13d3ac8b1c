"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class VolumeRestrictions(Plugin):
    name = "VolumeRestrictions"
