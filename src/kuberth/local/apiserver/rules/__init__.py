"""The rules of each kind: defaults, admission and validation, in upstream's words."""
