"""Objects and every change they go through, in memory and in one SQLite file."""
