"""BioProBench's five tasks: question answering, ordering, error detection, reasoned error detection and generation."""
