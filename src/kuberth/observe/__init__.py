"""What operators see: metrics under kube-scheduler's names.

Off a pod's way, below everything: every layer counts here, and nothing here knows any other layer.
"""
