"""Batches of responses and their rewards: one batch, one registry of rewards, one function that scores."""
