"""Alignment, IoU, LCS, subsequence, edit distance, prompt overlap, and the step rewards."""
