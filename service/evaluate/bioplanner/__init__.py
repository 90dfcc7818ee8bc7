"""BioPlanner's metrics of pseudocode, which ProtoMed-LLM uses too."""
