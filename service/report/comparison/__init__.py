"""Answers of several models side by side: pairs of records, intervals of differences, agreement with labels."""
