"""One request: its exchange, body, deadline and keys."""
