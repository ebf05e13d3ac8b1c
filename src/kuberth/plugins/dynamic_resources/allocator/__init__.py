"""The structured allocator: finds devices for claims, as the first solution of a search in a fixed order.

In: requests of claims (`demand`) and a site with its allocations. Out: the chosen devices (`search`), and the
result to write to a claim (`results`); or that there is no solution, or a problem with a claim. Results match
kube-scheduler's to the device; unlike its search, this one prunes what cannot succeed.
"""
