"""Signatures of evaluations and of rewards: what they name, and what they leave out."""

from __future__ import annotations

from importlib.metadata import version

from assay import __version__, evaluate
from assay.service.settings import RULES_VERSION
from assay.service.tasks.evaluation import evaluation_signature, reward_signature, task_named

NLTK, SACREBLEU = (f"{name}:{version(name)}" for name in ("nltk", "sacrebleu"))
END = f"v:{__version__}"

EVALUATIONS = {
    "score": ("score", {}, f"score|rules:{RULES_VERSION}|profile:paper|think_prefilled:false|{END}"),
    "thoth": (
        "score",
        {"profile": "thoth", "by": ["level"], "metrics": ["step_m"]},
        f"score|rules:{RULES_VERSION}|profile:thoth|think_prefilled:false|{END}",
    ),
    "a library": ("lexical", {"metrics": ["rouge_l"]}, f"lexical|bleu_tokens:13a|nltk_rules:3.9|{NLTK}|{END}"),
    "a model": (
        "bioprobench.gen",
        {"metrics": ["step_recall"], "embedding_model": "/models/mini", "embedder": "hashed_words"},
        "bioprobench.gen|profile:bioprobench|nltk_rules:3.9|embedder:hashed_words|embedding_model:mini"
        f"|empty_step_precision:one|{END}",
    ),
    "a function": ("bioplanner", {"embedder": lambda texts: texts}, f"bioplanner|mode:upstream|embedder:custom|{END}"),
    "a judge": (
        "llam_eval",
        {"base_url": "http://judge.internal/v1", "model": "judge|1", "samples": 5, "retries": 1},
        f"llam_eval|model:judge/1|prompt:paper|baseline:reference|method:samples|parser:form|samples:5|{END}",
    ),
}


def test_evaluations():
    for task, options, signature in EVALUATIONS.values():
        chosen = task_named(task)
        assert evaluation_signature(chosen, chosen.checked(options)) == signature
    step = {"action": "add", "objects": [], "parameters": []}
    result = evaluate("score", [{"response": "x", "reference": {"steps": [step]}}])
    assert result.document()["signature"] == result.signature == EVALUATIONS["score"][2]
    chosen = task_named("lexical")
    options = chosen.checked({"metrics": ["rouge_l", "bleu_1"]})
    assert NLTK not in evaluation_signature(chosen, options, ["rouge_l"])
    assert SACREBLEU in evaluation_signature(chosen, options, ["rouge_l"])


def test_rewards():
    order = task_named("bioprobench.ord")
    assert (
        reward_signature(order, order.checked({}))
        == f"bioprobench.ord|profile:bioprobench|repeats:last|reward:kendall_tau|{END}"
    )
    lexical = task_named("lexical")
    signature = reward_signature(lexical, lexical.checked({"reward": "rouge_l"}))
    assert signature == f"lexical|bleu_tokens:13a|nltk_rules:3.9|reward:rouge_l|{NLTK}|{END}"
