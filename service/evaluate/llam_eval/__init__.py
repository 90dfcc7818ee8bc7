"""Llam-Eval: a language model judges protocols by six criteria, from 1 to 5 (ProtoMed-LLM)."""
