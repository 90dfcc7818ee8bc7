"""A response behind its prompt."""


def overlap(prompt: str, query: str) -> str:
    """The longest end of the prompt that begins the query: tried one after the other, longest first."""
    ends = (prompt[k:] for k in range(len(prompt) + 1))
    return next(end for end in ends if query.startswith(end))


def response_behind(prompt: str, query: str) -> str:
    """What follows the prompt, or as much of its end as is there."""
    return query[len(overlap(prompt, query)) :]
