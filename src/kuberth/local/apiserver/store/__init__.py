"""Objects and all their changes, in memory and in one SQLite file."""
