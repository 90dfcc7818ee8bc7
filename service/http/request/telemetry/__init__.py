"""Metrics, traces and the log of refused requests."""
