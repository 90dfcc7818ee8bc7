"""The overlap of a left-truncated prompt with a query that contains its response."""


def overlap(prompt: str, query: str) -> str:
    """Return the longest suffix of the prompt that is a prefix of the query, by trying all, longest first."""
    ends = (prompt[k:] for k in range(len(prompt) + 1))
    return next(end for end in ends if query.startswith(end))


def response_after(prompt: str, query: str) -> str:
    """Return the query without the suffix of the prompt that it begins with."""
    return query[len(overlap(prompt, query)) :]
