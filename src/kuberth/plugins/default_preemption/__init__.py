"""DefaultPreemption: evicts pods of lower priority for a pod that fits nowhere.

In: a pod for which no node passed, and why. Out: a nominated node and its victims, or a message why
preemption would not help. The parts: which pods may be victims (`victims`), disruption budgets (`budgets`),
the node with the lowest cost (`candidates`), and the evictions (`eviction`).
"""
