"""NodeVolumeLimits: limits how many volumes a CSI driver attaches to a node.

A pod's volumes are resolved to CSI drivers and handles and compared with the volumes that are attached to
every node (`attached`) and with the limits in the CSINodes, and result in a verdict (`plugin`).
"""
