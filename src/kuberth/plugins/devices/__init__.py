"""Not a plugin: the devices that drivers publish, which nodes can use them, and which are allocated.

In: ResourceSlices, ResourceClaims and DeviceClasses from informers. Out: for every node the pools whose
devices it can use (`sites`), which of them are in use (`usage`), and the class that backs an extended
resource (`classes`). One `Inventory` serves all plugins of all profiles, and is updated incrementally.
"""
