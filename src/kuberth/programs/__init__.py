"""Long-running programs that commands start, until a signal ends them.

`run` is the scheduler on a real cluster, in kube-scheduler's place; `up` is a whole cluster on one machine.
"""
