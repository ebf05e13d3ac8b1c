"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class PodTopologySpread(Plugin):
    name = "PodTopologySpread"
