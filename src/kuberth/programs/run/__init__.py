"""`kuberth run`: the scheduler on a real cluster, with leader election, probes and metrics."""
