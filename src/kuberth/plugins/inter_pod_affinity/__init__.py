"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class InterPodAffinity(Plugin):
    name = "InterPodAffinity"
