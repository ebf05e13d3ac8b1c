"""A tour of what the scheduler does, on an in-process cluster.

In: a running local cluster. Out: objects created in it, scene by scene, and lines that describe what
happened.
"""
