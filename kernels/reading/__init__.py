"""Readers of sections, key steps, orc steps and references."""
