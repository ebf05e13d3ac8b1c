"""The scheduling cycle: one pod at a time, from the queue to a node.

On a pod's way this is the decision. A popped pod comes in; out goes a placement for the binding cycle,
or a rejection that sends the pod back to the queue. Synchronous and serial: it never awaits.
"""
