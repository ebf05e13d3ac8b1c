"""The binding cycle: makes a placement true.

On a pod's way this is the last part. A placement comes in; out goes a binding on the API, or the pod
returns to the queue with every reservation undone. All are concurrent; a pod that waits for nothing but the
API needs no task.
"""
