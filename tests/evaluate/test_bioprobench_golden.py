"""The metrics of other benchmarks against what their public scripts computed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.service.evaluate.evaluation import Result, evaluate
from tests.evaluate.word_lists import SENTENCES, WORDNET, needs_sentences

Golden = Callable[[str], tuple[list[dict[str, Any]], dict[str, Any]]]


@pytest.fixture(scope="module")
def bench(shared) -> Golden:
    def load(name: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        folder = shared / "golden" / "bio"
        inputs = json.loads((folder / f"{name}_inputs.json").read_text(encoding="utf-8"))
        expected = json.loads((folder / f"{name}_expected.json").read_text(encoding="utf-8"))
        return inputs, expected

    return load


def equal(value: float | None, expected: Any, tolerance: float = 1e-9) -> bool:
    """Return whether a value is the expected one; NaN there is no value here."""
    if not isinstance(expected, int | float) or isinstance(expected, bool):
        return value is None or math.isnan(value)
    return value is not None and math.isclose(value, expected, rel_tol=0, abs_tol=tolerance)


def check_aggregate(result: Result, expected: dict[str, Any], names: dict[str, str]) -> None:
    for name, theirs in names.items():
        assert equal(result.aggregate[name], expected[theirs]), name
    failed = sum(expected_failed for expected_failed in result.per_record["failed"])
    assert failed == expected.get("failed", failed)


def check_records(result: Result, expected: list[dict[str, Any]], names: dict[str, str]) -> None:
    for name, theirs in names.items():
        wrong = [k for k, record in enumerate(expected) if not equal(result.per_record[name][k], record.get(theirs))]
        assert not wrong, (name, wrong[:5])


def failed_rows(expected: list[dict[str, Any]]) -> list[int]:
    return [k for k, record in enumerate(expected) if record["status"] == "failed"]


def test_pqa(bench: Golden):
    records, expected = bench("PQA")
    result = evaluate("bioprobench.pqa", records)
    names = {"accuracy": "accuracy", "brier": "brier", "accuracy_over_all": "derived_accuracy_over_all"}
    check_aggregate(result, expected["aggregate"], names)
    check_records(result, expected["records"], {"accuracy": "correct"})
    assert [failure.record for failure in result.failed] == failed_rows(expected["records"])


def test_ord(bench: Golden):
    records, expected = bench("ORD")
    result = evaluate("bioprobench.ord", records)
    names = {
        "exact_match": "exact_match",
        "kendall_tau": "kendall_tau",
        "kendall_tau_macro": "derived_tau_macro_mean_of_single",
        "exact_match_over_all": "derived_em_over_all",
    }
    check_aggregate(result, expected["aggregate"], names)
    check_records(result, expected["records"], {"exact_match": "exact_match", "kendall_tau": "tau_single"})
    assert [failure.record for failure in result.failed] == failed_rows(expected["records"])
    strict = evaluate("bioprobench.ord", records, repeats="failed")
    for name in ("exact_match", "kendall_tau"):
        assert equal(strict.aggregate[name], expected["aggregate"]["derived_permutations_only"][name])


CLASSIFICATION = {name: name for name in ("accuracy", "precision", "recall", "f1")}


def test_err(bench: Golden):
    records, expected = bench("ERR")
    result = evaluate("bioprobench.err", records)
    check_aggregate(result, expected["aggregate"], CLASSIFICATION)
    assert equal(result.aggregate["accuracy_bool_gold"], expected["aggregate_bool_gold_only"]["accuracy"])
    assert [failure.record for failure in result.failed] == failed_rows(expected["records"])
    marked = evaluate("bioprobench.err", records, strict_markers=True)
    theirs = expected["derived_paper_markers_required"]
    check_aggregate(marked, theirs, {"precision": "precision", "recall": "recall", "f1": "f1"})
    assert equal(marked.aggregate["accuracy_bool_gold"], theirs["accuracy"])


def test_rea_err(bench: Golden):
    records, expected = bench("REA-ERR")
    result = evaluate("bioprobench.rea_err", records)
    check_aggregate(result, expected["aggregate"]["classification"], CLASSIFICATION)
    upstream = expected["aggregate"]["consistency_upstream"]
    assert equal(result.aggregate["consistency"], upstream["Consistency"] / 100)
    assert equal(result.aggregate["judge_failed"], upstream["Failure_Rate"] / 100)
    assert equal(result.aggregate["consistency_eq8"], expected["aggregate"]["derived_paper_eq8_requires_flag"])


GEN = {
    "rouge_1": "rouge1",
    "rouge_2": "rouge2",
    "rouge_l": "rougeL",
    "step_recall": "sr_hash256",
    "step_precision": "sp_hash256",
}
KEYWORDS = {"keyword_precision": "kw_precision", "keyword_recall": "kw_recall", "keyword_f1": "kw_f1"}


def settled(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record's expected values without those that depend on a tie or on a language model."""
    without = {"sr_hash256", "sp_hash256"} if record.get("threshold_margin_hash256") == 0.0 else set()
    without |= set() if record.get("kw_model_independent") else set(KEYWORDS.values())
    return {name: value for name, value in record.items() if name not in without}


def test_gen(bench: Golden):
    records, expected = bench("GEN")
    wanted = [*GEN, *KEYWORDS, "failed"]
    result = evaluate("bioprobench.gen", records, embedder="hashed_words", metrics=wanted)
    assert [row for row, failed in enumerate(result.per_record["failed"]) if failed] == failed_rows(expected["records"])
    tied = [k for k, record in enumerate(expected["records"]) if record.get("threshold_margin_hash256") == 0.0]
    for name in ("step_recall", "step_precision"):
        result.per_record[name][tied] = np.nan
    check_records(result, [settled(record) for record in expected["records"]], GEN | KEYWORDS)
    names = {"rouge_1": "ROUGE-1", "rouge_2": "ROUGE-2", "rouge_l": "ROUGE-L", "failed": "Failed"}
    check_aggregate(result, {**expected["aggregate"], "failed": len(failed_rows(expected["records"]))}, names)
    without_model = [failure.record for failure in result.failed if failure.reason == "keywords_need_model"]
    assert len(without_model) == sum(record.get("kw_model_independent") is False for record in expected["records"])


@needs_sentences
@pytest.mark.parametrize("rules", ["3.9", "3.10"])
def test_gen_by_words_of_nltk(bench: Golden, rules: str):
    """BLEU, and METEOR if WordNet is installed, by the rules of both versions of NLTK, whichever is installed."""
    records, expected = bench("GEN")
    names = {"bleu": "bleu"} | ({"meteor": "meteor"} if WORDNET else {})
    result = evaluate("bioprobench.gen", records, nltk=rules, metrics=list(names))
    theirs = [
        {name: record.get(f"{name}_nltk_3_10_4", record.get(name)) if rules == "3.10" else record.get(name)}
        for record in expected["records"]
        for name in ["bleu"]
    ]
    if WORDNET:
        for record, into in zip(expected["records"], theirs, strict=True):
            later = record.get("meteor_nltk_3_10_4", record.get("meteor"))
            into["meteor"] = later if rules == "3.10" else record.get("meteor")
    check_records(result, theirs, names)


def test_the_machine_says_what_it_has():
    """The tests above are skipped without word lists: then the task must say so rather than give numbers."""
    record = {"output": ["Wash the cells."], "generated_response": "Wash the cells."}
    found = evaluate("bioprobench.gen", [record])
    assert ("bleu" in found.unavailable) == (not SENTENCES)
    assert ("meteor" in found.unavailable) == (not (SENTENCES and WORDNET))


def counts_of_bytes(texts):
    """Embed texts with the stand-in for SciBERT that the expected values were computed with."""
    return np.array([np.bincount(np.frombuffer(text.encode(), np.uint8) % 64, minlength=64) for text in texts])


def test_bioplanner(bench: Golden):
    records, expected = bench("BIOPLANNER")
    result = evaluate("bioplanner", records, embedder=counts_of_bytes)
    names = {
        "levenshtein": "levenshtein",
        "levenshtein_scaled": "scaled_levenshtein",
        "function_precision": "func_precision",
        "function_recall": "func_recall",
        "argument_precision": "args_precision",
        "argument_recall": "args_recall",
        "argument_bleu": "args_bleu",
    }
    check_records(result, expected["records"], names)
    for name, theirs in names.items():
        assert equal(result.aggregate[name], expected["aggregate"][theirs]["mean_of_finite"]), name
    for value, record in zip(result.per_record["scibert_score"], expected["records"], strict=True):
        assert equal(value, record["args_similarity_standin"], 1e-6)
    assert equal(
        result.aggregate["scibert_score"], expected["aggregate"]["args_similarity_standin"]["mean_of_finite"], 1e-6
    )
    reasons = {"SyntaxError": "syntax_error", "IndexError": "too_many_functions", "AttributeError": "attribute_call"}
    given = {failure.record: failure.reason for failure in result.failed}
    for row, record in enumerate(expected["records"]):
        error = record["levenshtein"]
        if isinstance(error, str | dict):
            assert any(kind in json.dumps(error) and given[row] == reason for kind, reason in reasons.items())


def test_llam_eval(bench: Golden):
    records, expected = bench("LLAMEVAL")
    result = evaluate("llam_eval", records, parser="geval")
    names = {
        "score": "score_valid_only",
        "score_geval": "geval_mean_all(invalid=0)",
        "score_logprobs": "logprob_score_normalised",
        "score_logprobs_raw": "logprob_score_unnormalised",
        "logprobs_mass": "logprob_mass_on_scores",
    }
    check_records(result, expected["records"], names)
    assert equal(result.aggregate["score"], expected["aggregate"]["mean_score_valid_only"])
    assert equal(result.aggregate["score_geval"], expected["aggregate"]["mean_geval_all"])
    assert len(result.failed) == expected["aggregate"]["n_without_valid"]


def test_pqa_and_err_of_few_records(bench: Golden):
    """The tiny files: nothing read, all right, all wrong."""
    for name, keys in (
        ("PQA", {}),
        ("ERR", CLASSIFICATION),
        ("ORD", {"exact_match": "exact_match", "kendall_tau": "kendall_tau"}),
    ):
        for special in bench(name)[1]["special_files"]:
            if "result" not in special or not special["records"]:
                continue
            result = evaluate(f"bioprobench.{name.lower()}", special["records"])
            check_aggregate(result, special["result"], keys)
            if name == "PQA":
                assert equal(result.aggregate["brier"], special["result"]["brier"])
                right = [value for value in result.per_record["accuracy"].tolist() if not math.isnan(value)]
                assert right == special["result"]["accs"]


def test_gen_of_few_records(bench: Golden):
    names = {"keyword_f1": "KW_F1", "rouge_l": "ROUGE-L", "failed": "Failed", "step_recall": "Step_Recall"}
    names["step_precision"] = "Redundancy_Penalty"
    for special in bench("GEN")[1]["special_files"]:
        if isinstance(special["result"], dict):
            options = {"embedder": "hashed_words", "metrics": list(names)}
            result = evaluate("bioprobench.gen", special["records"], **options)
            check_aggregate(result, {**special["result"], "failed": special["result"]["Failed"]}, names)


def test_numbers_at_the_beginning(bench: Golden):
    from assay.service.evaluate.llam_eval.scores import geval_score

    for text, value in bench("LLAMEVAL")[1]["unit_parse"]:
        assert geval_score(text) == value
