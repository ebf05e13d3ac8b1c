"""What both cycles end in: a placement, or a rejection and all that follows from it.

On a pod's way this is where a decision leaves the synchronous core: a `Placement` goes on to its binding,
a `Rejection` sends the pod back to the queue, and everyone is told why (events, conditions, nominations).
"""
