"""The binding cycle: writes a placement to the API.

On a pod's way this is the last part. A placement comes in; the pod is bound, or returns to the queue with
every reservation undone. Bindings are concurrent; a pod that waits only for the API server needs no task.
"""
