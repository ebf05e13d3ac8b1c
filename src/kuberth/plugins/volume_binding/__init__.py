"""VolumeBinding: finds volumes for a pod's claims together with its node, and binds them before the pod.

A pod's claims come in sorted into bound, late and waiting for a consumer (`claims`). Filter asks of every
node at once (`finding`): are the bound volumes reachable from it, is there a volume for every waiting claim
(`matching`), or could one be made there (`provisioning`). Reserve remembers the choice for the chosen node
(`assumptions`), PreBind writes it to the API and waits until the claims are bound (`binding`).
"""
