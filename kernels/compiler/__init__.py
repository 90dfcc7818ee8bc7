"""Compilation of kernels and the cache of their machine code."""
