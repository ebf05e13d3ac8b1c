"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class ImageLocality(Plugin):
    name = "ImageLocality"
