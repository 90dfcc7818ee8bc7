"""Columns of Parquet and Arrow files (extra `arrow`)."""
