"""Edits of a response that may raise its reward."""
