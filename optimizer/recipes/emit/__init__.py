"""Kernel text for both languages."""
