"""DefaultPreemption: makes room for a pod that fits nowhere by evicting pods of lower priority.

In: a pod that no node passed, and why. Out: a node nominated for it and the pods there sent away, or a
message why that would not help. On the way: which pods may be victims (`victims`), what disruption budgets
say (`budgets`), which node suffers least (`candidates`), and the evictions themselves (`eviction`).
"""
