"""One file for each kind of address."""
