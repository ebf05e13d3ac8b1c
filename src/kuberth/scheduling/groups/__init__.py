"""Tries the pods of a group together (feature gate GenericWorkload).

On a pod's way this replaces the scheduling cycle: when a pod of a group is popped, the other pods are
gathered (`cycle`), the group is tried as a whole on the cluster table, possibly in several parts of the
cluster (`trial`), and the result is applied pod by pod (`cycle`).
"""
