"""Rewards of one file under many configurations."""
