"""From scored groups to the rows of the next training set."""
