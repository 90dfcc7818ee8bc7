"""JSON, scanned without building Python objects."""
