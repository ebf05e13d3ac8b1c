"""DefaultPreemption: evicts pods of lower priority for a pod that fits nowhere.

In: a pod that no node accepted, and the reasons. Out: a nominated node and its victims, or a message that
says why preemption would not help. The parts: the pods to evict from each node and the node with the
lowest cost (`candidates`), disruption budgets (`budgets`), and the evictions (`eviction`).
"""
