"""Regular expressions as RE2 defines them, matched in time linear in the text.

A selector is written by whoever may create a claim. Python's `re` backtracks, so that a pattern of twenty
characters can keep it busy for years; here all ways to match are followed at once, and the work is
bounded.

In: a pattern. Out: where a text matches it; `PatternError` for what RE2 refuses.
"""

from kuberth.cel.re2.matching import Pattern, compile_pattern
from kuberth.cel.re2.syntax import PatternError

__all__ = ["Pattern", "PatternError", "compile_pattern"]
