"""Scoring of whole files, and the manifest of a prepared folder."""
