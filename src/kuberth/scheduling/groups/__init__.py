"""Pods of a group are tried together (feature gate GenericWorkload).

On a pod's way this stands where the scheduling cycle does: a pod of a group comes from the queue, all its
fellows are gathered (`gathering`), the group is tried as a whole on the cluster table (`trial`), perhaps in
several parts of the cluster (`placements`), and the outcome is carried out pod by pod (`cycle`).
"""
