"""Readers of published traces. In: their files. Out: arrivals, and nodes if the trace has them."""
