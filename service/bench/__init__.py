"""`assay bench`: measures scoring on this machine, compared with a lower bound and with plain Python.

Each benchmark processes the same batch in a different way. They run in turns, so that noise affects all of them, and
every result is checked.
"""
