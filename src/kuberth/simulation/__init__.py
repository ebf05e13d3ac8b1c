"""Simulates days of a cluster in seconds: the real scheduler on a virtual clock.

In: a cluster (`clusters`), arriving pods (`traces`, `generating`, `published`, `recording`) and a scheduler
configuration. Out: an `Outcome` (`outcomes`) with waiting times, utilisation and attempts. `running` is
one run; `comparing`, `fitting` and `sweeping` make several; `reporting` formats them.
"""
