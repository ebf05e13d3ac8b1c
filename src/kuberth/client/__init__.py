"""The Kubernetes API: the protocol that the scheduler uses, and its implementation over HTTP.

Both ends of a pod's way: a pod arrives through list and watch, and leaves as a binding. Other layers depend
on the protocol alone.
"""
