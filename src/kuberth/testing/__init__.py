"""For tests, those of plugin authors too: factories for objects and a clock that stands still."""
