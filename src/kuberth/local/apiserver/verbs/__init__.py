"""The verbs of the API, independent of any transport: get, list, watch, create, update, patch, delete."""
