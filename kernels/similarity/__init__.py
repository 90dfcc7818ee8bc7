"""Alignment, IoU, LCS, subsequence, edit distance, and the rewards that they give."""
