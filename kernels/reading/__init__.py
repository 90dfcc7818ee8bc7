"""Sections, key steps, prose steps and references, read from text."""
