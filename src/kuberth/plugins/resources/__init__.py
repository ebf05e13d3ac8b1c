"""Not a plugin: requests and allocated resources, shared by the plugins about resources."""
