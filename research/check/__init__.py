"""What a data set is worth before training: gold answers, trivial policies, duplicates."""
