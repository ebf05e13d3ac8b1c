"""The outcomes of a cycle: a placement, or a rejection and its consequences.

On a pod's way this is where a decision leaves the synchronous core: a `Placement` goes on to its binding; a
`Rejection` returns the pod to the queue, and its reasons become events, conditions and nominations.
"""
