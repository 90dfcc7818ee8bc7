"""Metrics of texts, and what they need: tokens, stems, stop words, word lists and embeddings."""
