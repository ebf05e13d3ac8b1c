"""The structured allocator: devices for claims, the first solution of a search in a fixed order.

In: what claims want (`demand`) and a site with what is taken of it. Out: the devices picked (`search`), and
what is written of them into a claim (`results`); or that there are none, or what is wrong with a claim.
Answers are those of kube-scheduler, to the device; its search tries what cannot succeed, this one does not.
"""
