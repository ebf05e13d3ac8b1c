"""A small Kubernetes API server, for laptops, tests and simulation.

Beside a pod's way: it plays the API that the scheduler lists, watches and binds through. Requests come
in, over HTTPS or from this process; objects, watch events and Status errors go out. A resource is a row
of data; the verbs are written once for all of them.
"""
