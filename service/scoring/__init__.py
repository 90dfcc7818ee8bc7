"""Strings and columns to reward columns, in process: the scorer, references, threads and workspaces."""
