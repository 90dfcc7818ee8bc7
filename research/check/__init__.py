"""The value of a data set before training: gold answers, trivial policies, duplicates."""
