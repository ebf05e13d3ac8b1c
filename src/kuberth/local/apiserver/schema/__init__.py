"""Which kinds are served and what fields they have: the built-in ones, and those that users define."""
