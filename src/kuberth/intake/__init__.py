"""Dispatches every change of the cluster to the cluster table, the queue, or both.

On a pod's way this comes after the informers, which deliver old and new versions of objects. Cluster events
that may make pending pods schedulable go on to the queue.
"""
