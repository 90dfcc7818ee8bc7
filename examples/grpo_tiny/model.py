"""A tokenizer made of the phrases and words of a text, and a small model with random weights. Nothing is downloaded."""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

__all__ = ["new_model", "new_tokenizer"]

FRAME = r'<think>|\n(?:Step \d+|</\w+>|<(?:key|orc|note)>)|[^\w\n]*"(?:action|objects|parameters)": \[?"'
"""A tag, a step's number, or the name of a field in <key> with the punctuation around it."""

PIECE = r" ?\w+| ?[^\w\s]+(?: [^\w\s]+)*|\s"
"""A word, a run of punctuation, or white space; every text splits into these completely."""

SPECIAL = ["<pad>", "<eos>", "<unk>"]


def new_tokenizer(texts: Iterable[str], phrases: Iterable[str] = ()) -> PreTrainedTokenizerFast:
    """Return a tokenizer with a token for every phrase and other piece of the texts; decoding restores the text."""
    longest_first = sorted(set(phrases), key=lambda phrase: (-len(phrase), phrase))
    patterns = [rf" ?{re.escape(phrase)}(?!\w)" for phrase in longest_first]
    cut = pre_tokenizers.Split(Regex("|".join([*patterns, FRAME, PIECE])), behavior="isolated")
    pieces = sorted({piece for text in texts for piece, _ in cut.pre_tokenize_str(text)})
    tokenizer = Tokenizer(models.WordLevel({piece: k for k, piece in enumerate(SPECIAL + pieces)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = cut
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def new_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen2ForCausalLM:
    """Return a model with about 0.2 million parameters."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return Qwen2ForCausalLM(config)
