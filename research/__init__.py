"""Code that no request reaches: checks, ablations, selections and preparation of data, reports, conformance."""
