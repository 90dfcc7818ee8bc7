"""Embedders: functions of texts to vectors. One is built in for tests; others are named or passed by the caller."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from pydantic.json_schema import SkipJsonSchema

from ...errors import InvalidRequest, Issue
from ...wording import install_command
from ..task import import_optional, not_installed

Embedder = Callable[[Sequence[str]], Any]
EmbedderOption = Literal["hashed_words"] | SkipJsonSchema[Embedder] | None

WITHOUT_WEIGHTS = "embedder = hashed_words needs no weights, but its values are not comparable with published ones"
WIDTH = 256
BATCH = 1_024
WORD = re.compile(r"[a-z0-9]+")


def hashed_words(texts: Sequence[str]) -> np.ndarray:
    """Return counts of words by their CRC-32, float64 (n, 256): for tests and for comparing runs."""
    vectors = np.zeros((len(texts), WIDTH))
    for row, text in enumerate(texts):
        for word, count in Counter(WORD.findall(text.lower())).items():
            vectors[row, zlib.crc32(word.encode()) % WIDTH] += count
    return vectors


@contextmanager
def loading_weights(path: str) -> Iterator[None]:
    """Turn any exception into InvalidRequest, which names the option `path` but not the file or address."""
    try:
        yield
    except Exception as error:  # anything from the hub, the file system or the library
        detail = f"this model could not be loaded ({type(error).__name__}): give the folder of downloaded weights"
        raise InvalidRequest([Issue(path, "no_weights", detail)]) from error


def sentence_model(name: str, path: str) -> Embedder:
    library = import_optional("sentence_transformers", "embeddings", "An embedding model", path)
    with loading_weights(path):
        model = library.SentenceTransformer(name)
    return lambda texts: model.encode(list(texts), show_progress_bar=False)


def cls_model(name: str, path: str) -> Embedder:
    """Load a model of Transformers; a text's vector is the last hidden state of its first token, as in BioPlanner."""
    library = import_optional("transformers", "embeddings", "An embedding model", path)
    torch = import_optional("torch", "embeddings", "An embedding model", path)
    with loading_weights(path):
        tokenizer = library.AutoTokenizer.from_pretrained(name)
        model = library.AutoModel.from_pretrained(name)

    def embed(texts: Sequence[str]) -> list[Any]:
        with torch.no_grad():
            return [model(tokenizer.encode(text, return_tensors="pt"))[0][0][0].tolist() for text in texts]

    return embed


def chosen_embedder(
    model: str | None, embedder: Embedder | str | None, path: str, load: Callable[[str, str], Embedder] = sentence_model
) -> Embedder | None:
    if model is not None:
        return load(model, path)
    return hashed_words if isinstance(embedder, str) else embedder


def embedder_of(
    options: Any, purpose: str, published: str, load: Callable[[str, str], Embedder] = sentence_model
) -> Embedder:
    path = "options.embedding_model"
    embedder = chosen_embedder(options.embedding_model, options.embedder, path, load)
    if embedder is None:
        detail = f"{purpose} an embedder ({WITHOUT_WEIGHTS})"
        remedy = f"set embedding_model (published: {published}); it needs packages: {install_command('embeddings')}"
        raise not_installed(path, detail, remedy)
    return embedder


def embedded(embedder: Embedder, texts: Sequence[str], path: str) -> dict[str, np.ndarray]:
    """Return each distinct text's vector, float64 and of length 1, or 0 if all are zeros."""
    distinct = list(dict.fromkeys(texts))
    batches = [distinct[begin : begin + BATCH] for begin in range(0, len(distinct), BATCH)]
    vectors = [vector for batch in batches for vector in normalized(embedder(batch), len(batch), path)]
    return dict(zip(distinct, vectors, strict=True))


def normalized(values: Any, count: int, path: str) -> np.ndarray:
    vectors = np.asarray(values, np.float64)
    if vectors.ndim != 2 or len(vectors) != count or not np.isfinite(vectors).all():
        raise InvalidRequest([Issue(path, "bad_embeddings", "must give one finite vector for each text")])
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: np.ndarray = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit
