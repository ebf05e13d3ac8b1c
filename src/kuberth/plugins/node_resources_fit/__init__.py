"""NodeResourcesFit: does the node have what the pod asks for, and how full would it get?

On a pod's way it compares requests with the allocatable and requested columns of the cluster table: Filter
rules out nodes that lack something (`shortages`), Score prefers nodes by how full they get (`strategies`).
"""
