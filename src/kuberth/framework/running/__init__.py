"""Calls plugins phase by phase: the components of `kuberth.framework.runner.Runner`."""
