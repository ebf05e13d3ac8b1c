"""A small Kubernetes API server, for laptops, tests and simulation.

It serves the API that the scheduler lists, watches and binds through. In: requests, over HTTPS or from this
process. Out: objects, watch events and Status errors. A resource is a row of data; the verbs are implemented
once for all of them.
"""
