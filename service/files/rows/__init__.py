"""Rows of JSON and JSONL files: read in bounded pieces, and written so that every line is whole."""
