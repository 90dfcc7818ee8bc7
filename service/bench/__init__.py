"""`assay bench`: measures scoring on this machine, compared with a lower bound and with plain Python.

Each module of `benchmarks` processes the same batch in a different way. Benchmarks run in turns, so that noise affects
all of them, and every result is checked.
"""
