"""UTF-8, Unicode normalisation, words, units, lines and interning."""
