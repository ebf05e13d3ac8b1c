"""Where every change of the cluster is sorted: into the cluster table, the queue, or both.

On a pod's way this is the door: informers bring old and new versions of objects, and cluster events that
may bring waiting pods back go on to the queue.
"""
