"""Loads and stores, SIMD blocks, hashing, sparse arrays and workspaces."""
