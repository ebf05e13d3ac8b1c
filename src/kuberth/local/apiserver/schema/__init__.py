"""The kinds that are served and their fields: built-in and custom ones."""
