"""Universes: whole clusters with faults, drawn from a seed, played on virtual time and judged.

`drawing` draws a universe from a seed, `playing` runs the real scheduler through it over `cluster` and
`network`, and `judging` reads the story that results and knows nothing of the scheduler. `shrinking` reduces
a universe that breaks a rule. `python -m tests.universe` plays many.
"""
