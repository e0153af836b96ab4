"""Compiling outside the device's slot: a sandboxed process a candidate, and a cache by content."""
