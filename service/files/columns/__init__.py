"""Columns of Parquet and Arrow files (extra `assay[arrow]`)."""
