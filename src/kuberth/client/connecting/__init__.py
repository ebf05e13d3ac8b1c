"""Connections to one server: dialing, TLS, HTTP/1.1, the pool and the outbox."""
