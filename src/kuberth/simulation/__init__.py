"""A cluster's days in seconds: the very scheduler on a virtual clock.

Beside a pod's way, among those who ask. In: a cluster (`clusters`), pods that arrive (`traces`, `generating`,
`published`, `recording`) and a scheduler's configuration. Out: an `Outcome` (`outcomes`): who waited for how
long, how full the nodes were, what it cost. `stage` plays one run; `comparing`, `fitting` and `sweeping` play
many; `reporting` draws them.
"""
