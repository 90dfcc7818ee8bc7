"""Sockets, connections, workers and their supervisor."""
