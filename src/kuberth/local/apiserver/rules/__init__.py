"""What each kind asks of its objects: defaults, admission, validation, in upstream's words."""
