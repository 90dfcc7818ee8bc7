"""Tasks for lm-evaluation-harness: rows of `assay prepare`, scored by a service."""
