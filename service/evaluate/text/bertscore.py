"""BERTScore by the package `bert-score`, with weights that the caller names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from ...errors import InvalidRequest, Issue
from ...extras import install_command
from ..optional_dependencies import import_optional, not_installed
from ..task import LOCAL, Options
from .embedders import loading_weights
from .text_pairs import TextPair

__all__ = ["BertScoreOptions", "bertscore_model", "scores_of"]

BertScoreModel = Callable[[list[str], list[str]], Sequence[Any]]
"""Takes n responses and n references, and returns precision, recall and F1 of each, three times n values."""

PATH = "options.bertscore_model"


class BertScoreOptions(Options):
    """Options of BERTScore's model."""

    bertscore_model: str | None = Field(
        None, description="The model for BERTScore by name (roberta-large) or folder.", json_schema_extra=LOCAL
    )
    bertscore_layer: int | None = Field(
        None,
        ge=0,
        description="The layer whose vectors BERTScore compares; if null, the package's choice for a model that it "
        "knows by name, or 24 in task scirecipe with profile thoth.",
    )


def bertscore_model(options: Any, default_layer: int | None = None) -> BertScoreModel:
    """Load the model that the options name.

    Raises NotInstalled if none is named or the package is missing, and InvalidRequest without weights or a layer.
    """
    name, layer = options.bertscore_model, options.bertscore_layer
    if name is None:
        naming = "then pass --option bertscore_model=roberta-large, or the folder of its weights"
        raise not_installed(PATH, "BERTScore needs a model", f"{install_command('bertscore')}, {naming}")
    library = import_optional("bert_score", "bertscore", "BERTScore", PATH)
    layer = default_layer if layer is None else layer
    if layer is None and name not in library.utils.model2layers:
        detail = "is needed for a model that bert-score does not know by name; for roberta-large the package uses 17"
        raise InvalidRequest([Issue("options.bertscore_layer", "missing_option", detail)])
    with loading_weights(PATH):
        model = library.BERTScorer(model_type=name, num_layers=layer)
    score: BertScoreModel = model.score
    return score


def scores_of(model: BertScoreModel, pairs: Sequence[TextPair]) -> np.ndarray:
    """Return precision, recall and F1 of each pair, float64 (3, n); 0 if one of its texts is empty."""
    scores = np.zeros((3, len(pairs)))
    present = [row for row, pair in enumerate(pairs) if pair.reference.strip() and pair.generated.strip()]
    if present:
        columns = model([pairs[row].generated for row in present], [pairs[row].reference for row in present])
        scores[:, present] = [np.asarray(values, np.float64) for values in columns]
    return scores
