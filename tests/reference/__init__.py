"""The textbook twin: the whole reward in plain Python, written from its definition in docs/rules.md.

One subject a file, with the paper's variable names, neither slowed nor tuned. Nothing here imports the
product and the product imports nothing of it: where the two agree, it is not because they share code.
`scorer.py` is the public face.
"""
