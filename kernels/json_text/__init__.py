"""JSON, read without building Python objects."""
