"""NodeVolumeLimits: a CSI driver attaches a limited number of volumes to a node.

A new pod's volumes come in as their CSI driver and handle (`resolving`), are compared with what is already
attached to every node (`attached`) and with the limits in the CSINodes, and a verdict goes out (`plugin`).
"""
