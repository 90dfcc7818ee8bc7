"""Assay's kernels: text columns in, reward columns out, compiled with Numba.

This package knows NumPy and Numba, nothing of HTTP, JSON envelopes or settings files.
Importing it imports no Numba and compiles nothing; `assay.kernels.warmup.warmup()` does.
"""
