"""Readers of traces that others have published. In: their files. Out: arrivals, and nodes where they tell."""
