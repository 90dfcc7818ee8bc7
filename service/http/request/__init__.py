"""Handling of one request: exchange, body, admission, deadline, keys and threads."""
