"""Not a plugin: what the plugins about resources share: requests, and what nodes have given away."""
