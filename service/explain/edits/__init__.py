"""Edits of texts, without an explanation: drafts of a response, repairs of one line, and the four sections."""
