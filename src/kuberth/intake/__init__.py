"""Sorts every change of the cluster: into the cluster table, the queue, or both.

On a pod's way this comes after the informers, which bring old and new versions of objects; cluster events
that may bring waiting pods back go on to the queue.
"""
