"""Not a plugin: requests, allocated resources and shortages, shared by the plugins about resources."""
