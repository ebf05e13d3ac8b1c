"""Not a plugin: claims and their volumes, CSI drivers and migration, shared by the plugins about volumes."""
