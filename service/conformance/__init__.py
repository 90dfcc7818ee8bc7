"""The published test vectors, run against Assay or against any other implementation of its rules."""
