"""The benchmarks, one module each: different ways to process the same batch."""
