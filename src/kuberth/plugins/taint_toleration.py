"""Placeholder."""

from kuberth.framework.extension_points import Plugin


class TaintToleration(Plugin):
    name = "TaintToleration"
