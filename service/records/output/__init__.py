"""Output files, which appear whole or grow by whole lines."""
