"""HTML reports on scored and on evaluated files."""
