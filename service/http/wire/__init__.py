"""Bytes of a request to columns, and scores to bytes of a reply, without an event loop."""
