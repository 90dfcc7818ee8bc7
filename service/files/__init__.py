"""Scoring of rollout files: read in bounded pieces, written in whole lines."""
