"""Servers that benchmarks start, and the load that they put on them."""
