"""From published records to the rows of a training run: what `assay prepare` does."""
