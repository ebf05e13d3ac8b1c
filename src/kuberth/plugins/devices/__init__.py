"""Not a plugin: what the cluster's drivers offer, which nodes can reach it, and what of it is taken.

In: ResourceSlices, ResourceClaims and DeviceClasses as informers know them. Out: for every node the pools it
can take devices from (`sites`), what of them is in use (`usage`), and the class behind an extended resource
(`classes`). One `Inventory` serves all plugins of all profiles; it follows changes, and recomputes nothing
that did not change.
"""
