"""Files of every format, opened and read: JSON lines, JSON arrays, Parquet and Arrow, compressed or not."""
