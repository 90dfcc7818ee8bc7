"""Decoding of requests to columns and encoding of scores to replies, without an event loop."""
