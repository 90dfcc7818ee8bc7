"""Rows of JSON and JSONL files: read in bounded pieces, written in whole lines."""
