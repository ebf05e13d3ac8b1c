"""A tour of what the scheduler does, on a cluster of this process.

In: a running local cluster. Out: objects created in it, scene by scene, and lines that say what happened.
"""
