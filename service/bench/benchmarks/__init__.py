"""One file for each benchmark: one way for the same batch to be worked on."""
