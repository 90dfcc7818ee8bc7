"""Embedders: functions of texts to vectors. One is built in for tests; others are named or passed by the caller."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import InvalidRequest, Issue
from ..optional_dependencies import import_optional, not_installed

__all__ = [
    "Embedder",
    "chosen_embedder",
    "cls_model_named",
    "embedded",
    "embedder_of",
    "hashed_words",
    "model_named",
    "normalized",
]

Embedder = Callable[[Sequence[str]], Any]
"""Takes n texts and returns n vectors of one length, as an array or as lists; called in batches."""

WIDTH = 256
BATCH = 1_024
"""Texts of one batch."""
WORD = re.compile(r"[a-z0-9]+")
EXTRA = "embeddings"


def hashed_words(texts: Sequence[str]) -> np.ndarray:
    """Return counts of words by their CRC-32, float64 (n, 256): needs no weights and is deterministic.

    It measures shared words, not shared meaning: for tests and for comparing runs, not for published values.
    """
    vectors = np.zeros((len(texts), WIDTH))
    for row, text in enumerate(texts):
        for word, count in Counter(WORD.findall(text.lower())).items():
            vectors[row, zlib.crc32(word.encode()) % WIDTH] += count
    return vectors


def chosen_embedder(
    model: str | None, embedder: Embedder | str | None, path: str, load: Callable[[str, str], Embedder] | None = None
) -> Embedder | None:
    """Return the embedder that two options name, `model` before `embedder`; None if they name none.

    load: takes the model and `path`, the option that names it; `model_named` by default.
    """
    if model is not None:
        return (load or model_named)(model, path)
    return hashed_words if isinstance(embedder, str) else embedder


def embedder_of(options: Any, needs: str, load: Callable[[str, str], Embedder] | None = None) -> Embedder:
    """Return the embedder that `embedding_model` and `embedder` of the options name.

    Raises NotInstalled with the sentence `needs` if they name none, or if a package is missing.
    """
    embedder = chosen_embedder(options.embedding_model, options.embedder, "options.embedding_model", load)
    if embedder is None:
        raise not_installed("options.embedding_model", needs)
    return embedder


def model_named(name: str, path: str) -> Embedder:
    """Load a model of Sentence Transformers by name or folder; raises NotInstalled, or InvalidRequest without weights.

    path: the option that named it, for the error.
    """
    library = import_optional("sentence_transformers", EXTRA, "An embedding model", path)
    try:
        model = library.SentenceTransformer(name)
    except Exception as error:  # anything from the hub, the file system or the library
        raise no_weights(path, error) from error
    return lambda texts: model.encode(list(texts), show_progress_bar=False)


def embedded(embedder: Embedder, texts: Sequence[str], path: str) -> dict[str, np.ndarray]:
    """Return each distinct text's normalized vector, float64; raises InvalidRequest for vectors of other shapes."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return {}
    vectors = np.concatenate(
        [vectors_of(embedder, distinct[begin : begin + BATCH], path) for begin in range(0, len(distinct), BATCH)]
    )
    return dict(zip(distinct, normalized(vectors), strict=True))


def vectors_of(embedder: Embedder, texts: Sequence[str], path: str) -> np.ndarray:
    vectors = np.asarray(embedder(texts), np.float64)
    if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
        raise InvalidRequest([Issue(path, "bad_embeddings", "must give one finite vector for each text")])
    return vectors


def normalized(vectors: np.ndarray) -> np.ndarray:
    """Normalize rows to length 1; rows of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: np.ndarray = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit


def cls_model_named(name: str, path: str) -> Embedder:
    """Load a model of Transformers; a text's vector is the last hidden state of its first token, as in BioPlanner.

    Raises as `model_named` does.
    """
    library = import_optional("transformers", EXTRA, "An embedding model", path)
    torch = import_optional("torch", EXTRA, "An embedding model", path)
    try:
        tokenizer = library.AutoTokenizer.from_pretrained(name)
        model = library.AutoModel.from_pretrained(name)
    except Exception as error:  # anything from the hub, the file system or the library
        raise no_weights(path, error) from error

    def embed(texts: Sequence[str]) -> list[Any]:
        with torch.no_grad():
            return [model(tokenizer.encode(text, return_tensors="pt"))[0][0][0].tolist() for text in texts]

    return embed


def no_weights(path: str, error: Exception) -> InvalidRequest:
    detail = f"this model could not be loaded ({type(error).__name__}): give the folder of downloaded weights"
    return InvalidRequest([Issue(path, "no_weights", detail)])
