"""The outcomes of a cycle: a placement, or a rejection and its consequences.

On a pod's way this is where a decision leaves the synchronous core: a `Placement` goes on to its binding,
a `Rejection` sends the pod back to the queue, and its reasons to events, conditions and nominations.
"""
