"""Long-running programs that commands start, until a signal ends them.

`run` is the scheduler on a real cluster, as a replacement for kube-scheduler; `up` is a whole cluster on one
machine.
"""
