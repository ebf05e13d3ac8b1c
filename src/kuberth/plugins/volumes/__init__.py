"""Not a plugin: what the plugins about volumes share, claims and their volumes, CSI drivers and migration."""
