"""Files of rollouts: read in bounded pieces, scored, and written so that every line is whole."""
