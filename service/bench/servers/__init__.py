"""Servers for benchmarks, and a load generator."""
