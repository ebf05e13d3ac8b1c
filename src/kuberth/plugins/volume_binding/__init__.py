"""VolumeBinding: finds volumes for a pod's claims together with its node, and binds them before the pod.

The claims of a pod are sorted into bound ones, late ones, and those that wait for a consumer (`claims`).
Filter checks all nodes at once (`finding`): are the bound volumes reachable, is there a volume for every
waiting claim (`matching`), or can one be provisioned there (`provisioning`)? Reserve records the choice for
the chosen node (`assumptions`), PreBind writes it to the API and waits until the claims are bound
(`binding`).
"""
