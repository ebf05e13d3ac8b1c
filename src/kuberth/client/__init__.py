"""The Kubernetes API: the protocol that the scheduler uses, and its implementation over HTTP.

A pod's way begins and ends here: it arrives through list and watch, and leaves as a binding. Other layers
depend only on the protocol.
"""
