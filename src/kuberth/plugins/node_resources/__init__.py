"""NodeResourcesFit and NodeResourcesBalancedAllocation: does the node have what the pod asks for?

On a pod's way these two compare requests with the allocatable and requested columns of the cluster
table: Filter rules out nodes that lack something, Score prefers nodes by how full or how even they get.
"""

from kuberth.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from kuberth.plugins.node_resources.fit import NodeResourcesFit

__all__ = ["NodeResourcesBalancedAllocation", "NodeResourcesFit"]
