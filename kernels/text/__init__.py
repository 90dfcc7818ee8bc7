"""UTF-8, Unicode normalization, words, units, lines and interning."""
