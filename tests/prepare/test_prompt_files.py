"""Prompts of files: the forms in which authors publish them, their places, their errors and their digests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from assay.research.prepare.examples import Example, PrepareOptions, read_example
from assay.research.prepare.prompt_files import read_prompts
from assay.research.prepare.prompt_sets import SAMPLES, OwnPrompts, PromptSet
from assay.research.prepare.prompts import (
    CHOICE,
    CONTEXT,
    GENERATION,
    GUIDANCE,
    LIBRARY,
    ORDER,
    PROMPTS,
    PSEUDOCODE,
    REASONED_VERDICT,
    SKETCH_AND_FILL,
    VERDICT,
    messages_of,
)
from assay.research.reports.evaluated_tasks import prompt_warning
from assay.service.errors import UsageError
from assay.service.records.rows.rows import Fault
from tests.command_line import read_rows, write_rows
from tests.prepare import by_hand, published

BENCHMARK = '''
open("executed", "w").close()

def ask(sample, task_name):
    """Return a prompt."""
    if task_name == 'PQA':
        prompt = f"""Q: {sample['question']} {{braces}}
Of {sample['choices']} [ANSWER_START][ANSWER_END]"""
    elif task_name == "ORD":
        prompt = f"{sample['question']}\\n"
        prompt += f"{sample.get('wrong_steps')}"
    elif task_name == "ERR":
        if sample["is_correct"]:
            step = sample["corrected_text"]
        else:
            step = sample["corrupted_text"]
        prompt = f"Right? {step} {sample['context']}"
    elif task_name == "GEN":
        return sample["instruction"] + "\\n" + sample["input"]
    else:
        raise ValueError(task_name)
    return prompt
'''

SCRIPT = """
import json
from os import environ
SYSTEM = ("Plan. " 'Answer as {"action": …}. ' + "<think> <key> <orc> <note>")
PLACES = "{question} of {name}, {{literal}}"
name = "a constant"
LITERAL = '{"name": [1]}'
TWICE = "a"
COPY = TWICE
TWICE = "b"

def ask(question, actions, shuffle=True):
    if shuffle:
        words = list(actions)
    else:
        words = [word for word in actions]
    quoted = '", "'.join(words)
    return question.strip() + f' Only: "{quoted}".'

def unreadable(question):
    for word in question:
        return word

def called(question):
    return ask(question, [])

def raises(question):
    if question:
        raise ValueError
    return question

def chooses(sample):
    if sample["a"]:
        question = sample["b"] + "!"
    else:
        question = sample["b"]
    return question

def made(sample):
    question = sample["b"].title()
    return question

def adds(sample):
    question += "!"
    return question

def grows(question):
    a = question + " "
    GROWS
    return a
""".replace("GROWS", "\n    ".join(["a = a + a"] * 60))


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], str]:
    """Return a function that writes a file, text or JSON, in the current folder, and returns its name."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, content: Any) -> str:
        Path(name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return name

    return write


Write = Callable[[str, Any], str]


def json_prompts(write: Write, name: str = "mine.json", **prompts: Any) -> PromptSet:
    return read_prompts(
        [write(name, {"name": "mine", "prompts": {key.replace("_", "."): prompts[key] for key in prompts}})]
    )


def asked(prompts: PromptSet, example: Example, actions: tuple[str, ...] | None = None) -> str:
    messages = prompts.messages(example, actions)
    assert not isinstance(messages, Fault)
    return str(messages[-1]["content"])


def error_of(*paths: str) -> str:
    with pytest.raises(UsageError) as error:
        read_prompts(paths)
    return str(error.value)


def test_a_script_with_branches_for_the_tasks_of_the_benchmark(write: Write) -> None:
    """Its prompts are what the script returns, but it is not executed."""
    prompts = read_prompts([write("ask.py", BENCHMARK)])
    assert not Path("executed").exists()
    script: dict[str, Any] = {}
    exec(BENCHMARK, script)
    for record in (published.PQA, published.ORD, published.ERR, published.RIGHT, published.GEN):
        example = read_example(record, by_hand.PLACE, PrepareOptions())
        assert isinstance(example, Example)
        name = "GEN" if example.task == "lexical" else example.task.partition(".")[2].upper()
        assert prompts.messages(example, None) == [{"role": "user", "content": script["ask"](record, name)}]
    missing = prompts.messages(by_hand.generation(), None)
    assert missing == ("no_place", "the record has nothing for {record[input]} in the prompt of lexical")


def test_texts_of_a_script_that_a_file_names(write: Write) -> None:
    write("script.py", SCRIPT)
    by_name = {"python": "script.py", "system": "SYSTEM"}
    prompts = json_prompts(write, score={**by_name, "user": "ask", "places": {"words": "{actions}"}})
    system = 'Plan. Answer as {"action": …}. <think> <key> <orc> <note>'
    example = by_hand.protocol()
    user = f'{example.question} Only: "rinse", "dry".'
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    assert prompts.messages(example, ("rinse", "dry")) == messages
    assert prompts.messages(example, None) == (
        "no_place",
        "the record has nothing for {actions} in the prompt of score",
    )
    prompts = json_prompts(write, score={**by_name, "user": "PLACES"})
    assert asked(prompts, example) == f"{example.question} of a constant, {{literal}}"
    assert [file["name"] for file in prompts.document()["files"]] == ["mine.json", "script.py"]


def test_every_place_of_the_own_form(write: Write) -> None:
    functions = "dry(vessel)\nrinse(vessel, solvent, seconds)\nstore(…)"
    protocol = {"title": "T", "description": "D", "steps": "1. S"}
    for task, example, text, filled in (
        ("score", by_hand.protocol(), "{question} {actions}", 'How is a beaker cleaned? "a", "b"'),
        ("bioprobench.pqa", by_hand.choice(), "{question} {choices}", "Add ____ of buffer. - 2 ml\n- 5 ml"),
        ("bioprobench.ord", by_hand.order(), "{count}: {steps}", "3: 0: dry\n1: rinse\n2: store"),
        ("bioprobench.err", by_hand.verdict(True), "{step} {purpose}", "Dry the beaker at 60 °C. Clean glass"),
        (
            "bioprobench.rea_err",
            by_hand.verdict(True, "bioprobench.rea_err"),
            "{question}\n{context}\n{prior_step}",
            "Dry the beaker at 60 °C.\nPurpose: Clean glass\nStep before: Rinse the beaker\nRinse the beaker",
        ),
        (
            "lexical",
            by_hand.generation(),
            "{{}} {instruction} {question}",
            "{} Give a flat list. How is a beaker cleaned?",
        ),
        (
            "bioplanner",
            by_hand.pseudocode().replaced(record=protocol),
            "[Title]/{title}/{d}/{steps}/{functions}",
            f"Wash/T/D!/1. S/{functions}",
        ),
    ):
        places = {"[Title]": "Wash", "d": "{description}!"} if task == "bioplanner" else {}
        prompts = read_prompts([write("own.json", {"prompts": {task: {"user": text, "places": places}}})])
        assert asked(prompts, example, ("a", "b")) == filled
    assert prompts.name == "own.json"


def test_every_problem_of_the_files_is_named(write: Write) -> None:
    write("script.py", SCRIPT)
    write("broken.py", "x = (")
    script = {"python": "script.py"}
    content = {
        "names": "x",
        "prompts": {
            "scor": {"user": "{question}"},
            "score": {"user": "{question} {x} {question.y} {z}"},
            "lexical": {"user": "a { b"},
            "bioplanner": {"user": "{question}", "systems": "x"},
            "bioprobench.pqa": {**script, "user": "unreadable"},
            "bioprobench.ord": {**script, "user": "absent"},
            "bioprobench.err": {"user": "{step}", "places": {"other": "{step}", "": "x"}},
            "bioprobench.rea_err": {"python": "broken.py", "user": "x"},
        },
    }
    gone = {"score": {"python": "gone.py", "user": "x"}, "lexical": {"user": "{question} \ud800"}}
    files = [write("bad.json", content), write("empty.py", "x = '\\d'"), write("plain.json", "[]")]
    error = error_of(*files, write("gone.json", {"prompts": gone}))
    for named in (
        "bad.json: the field 'names' must be one of: name, prompts",
        "the prompt of scor: the task must be one of: score, ",
        "did you mean score?",
        "the prompt of score: unknown places {x}, {question.y}, {z}; the places are {question}, {actions}",
        "the prompt of lexical: user: expected '}'",
        "the field 'systems' must be one of: python, system, user, places; did you mean system?",
        "user: script.py: unreadable: line 21: what the function returns depends on a statement that is not followed",
        "user: script.py: absent: the file has no such text; it has ask, unreadable, called",
        "the prompt of bioprobench.err: places: it has no 'other' and no ''",
        "the prompt of bioprobench.rea_err: broken.py: line 1: it is not valid Python",
        "empty.py: no function has branches for the tasks of BioProBench",
        'plain.json: it is not an object with "prompts"',
        "gone.json: the prompt of score: gone.py: No such file or directory",
        "gone.json: the prompt of lexical: it has a lone surrogate",
    ):
        assert named in error
    twice = '{"prompts": {"score": {"user": "{question}"}, "score": {"user": "{question}!"}}}'
    assert error_of(write("twice.json", twice)) == "twice.json: 'score' is repeated in an object"
    both = [write(name, {"prompts": {"score": {"user": "{question}"}}}) for name in ("a.json", "b.json")]
    assert error_of(*both) == "b.json: a.json has a prompt for score too"
    wrong = [{}, {"user": ""}, {"user": "the same"}, {"user": "{question:>9}"}, {"user": "{}"}]
    for about in (*wrong, {"user": "{question}", "system": 1}):
        error = error_of(write("wrong.json", {"prompts": {"score": about}}))
        assert error.startswith("wrong.json: the prompt of score: ")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("called", "line 25: the text cannot be read without executing it"),
        ("raises", "line 28: what the function returns depends on a statement that is not followed"),
        ("chooses", "line 33: a condition on a field is read only if it chooses between two fields"),
        ("made", "line 40: the text cannot be read without executing it"),
        ("adds", "line 44: the text cannot be read without executing it"),
        ("COPY", "TWICE is assigned more than once, or by another statement than NAME = TEXT"),
        ("grows", "line 66: the text has more than 262,144 characters"),
    ],
)
def test_what_would_have_to_be_executed(write: Write, name: str, says: str) -> None:
    write("script.py", SCRIPT)
    error = error_of(write("a.json", {"prompts": {"score": {"python": "script.py", "user": name}}}))
    assert error == f"a.json: the prompt of score: user: script.py: {name}: {says}"


def test_digests_are_of_the_texts(write: Write) -> None:
    def of(text: str, **fields: Any) -> str:
        return json_prompts(write, score={"user": text, **fields}).sha256

    digests = [of("{question}"), of("{question}!"), of("{{question}} {question}"), of("{question}", system="S")]
    assert len(set(digests)) == 4
    write("script.py", 'def ask(question):\n    return f"{question}!"')
    assert of("ask", python="script.py") == digests[1]
    assert json_prompts(write, "other.json", score={"user": "{question}"}).sha256 == digests[0]


def test_the_digest_of_own_prompts_changes_with_each_text(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = json.dumps([messages_of(*sample) for samples in SAMPLES.values() for sample in samples], ensure_ascii=False)
    texts = [SKETCH_AND_FILL, LIBRARY, CHOICE, ORDER, VERDICT, REASONED_VERDICT, GENERATION, PSEUDOCODE]
    for text in (*texts, *GUIDANCE.values(), *CONTEXT.values()):
        assert json.dumps(text, ensure_ascii=False)[1:-1] in shown
    before = OwnPrompts()
    before.check(by_hand.ALL)
    assert before.document()["tasks"].keys() == PROMPTS.keys()
    monkeypatch.setitem(GUIDANCE, "safety", "Be careful.")
    assert OwnPrompts().sha256 != before.sha256 == before.document()["sha256"]


def test_a_warning_that_prompts_differ() -> None:
    first, second = {"name": "assay", "sha256": "a" * 64}, {"name": "mine", "sha256": "b" * 64}
    by_model = {"m1": [{"prompts": first}], "m2": [{"prompts": second}, {"prompts": second}], "m3": [{}]}
    warning = (
        "The answers are to different prompts, so that their values do not compare: "
        "m1 to assay (aaaaaaaa); m2 to mine (bbbbbbbb)"
    )
    assert prompt_warning(by_model) == warning
    assert prompt_warning({"m2": by_model["m2"]}, first) == (
        "The answers are to different prompts, so that their values do not compare: "
        "m2 to mine (bbbbbbbb); the rows have assay (aaaaaaaa)"
    )
    assert prompt_warning({"m2": by_model["m2"], "m3": by_model["m3"]}) is None
    assert prompt_warning({"m1": by_model["m1"], "m3": [{"prompts": "?"}]}, first) is None


Call = Callable[..., Result]


def test_prepare_writes_the_prompts_and_their_digests(call: Call, write: Write, tmp_path: Path) -> None:
    records = [published.EVAL, published.PQA, published.GEN]
    write_rows(Path("records.jsonl"), records)
    write("ask.py", BENCHMARK)
    write("score.json", {"name": "mine", "prompts": {"score": {"system": "Plan.", "user": "{question} {actions}"}}})
    flags = ["--prompts", "ask.py", "--prompts", "score.json", "--test", 0, "--similarity", 1]
    done = call("prepare", "records.jsonl", *flags, "-o", "out")
    assert done.exit_code == 0, done.output
    assert "note: the prompt of score asks for no <think> <key> <orc> <note>, which its scorer reads" in done.stderr
    rows = {row["task"]: row["prompt"] for row in read_rows(tmp_path / "out" / "train.jsonl")}
    assert rows["lexical"] == [{"role": "user", "content": "List the steps.\nHow is a gel made?"}]
    assert rows["score"][0] == {"role": "system", "content": "Plan."}
    about = json.loads(Path("out/assay.json").read_bytes())["prompts"]
    prompts = read_prompts(["ask.py", "score.json"])
    assert (about["name"], about["sha256"]) == ("ask.py, mine", prompts.sha256)
    assert sorted(about["tasks"]) == ["bioprobench.pqa", "lexical", "score"]
    assert [file["name"] for file in about["files"]] == ["ask.py", "score.json"]


def test_prompts_that_do_not_fit_the_records(call: Call, write: Write) -> None:
    write_rows(Path("records.jsonl"), [published.PQA, published.ORD, published.TRAIN])
    write("mine.json", {"prompts": {"bioprobench.pqa": {"user": "{question}"}, "score": {"user": "{question}"}}})
    write("gen.json", {"prompts": {"lexical": {"user": "{question}"}}})
    done = call("prepare", "records.jsonl", "--prompts", "mine.json", "--prompts", "gen.json", "-o", "out")
    assert done.exit_code == 2
    for named in (
        "no prompt for bioprobench.ord (1 record)",
        "the prompt of bioprobench.pqa does not show what is asked: it has none of {choices}, {record[choices]}",
        "gen.json: no record is of lexical",
    ):
        assert named in done.stderr
    assert not Path("out").exists()
    for flags in (["--own-prompts"], ["--stage", "knowledge"]):
        done = call("prepare", "records.jsonl", "--prompts", "mine.json", *flags, "-o", "out")
        assert (done.exit_code, "--prompts" in done.stderr) == (2, True)


def test_own_prompts_and_texts_have_their_entry_too(call: Call, write: Write) -> None:
    write_rows(Path("records.jsonl"), [published.RL, published.TEXT])
    for flags, name in ((["--own-prompts"], "records"), ([], "assay"), (["--stage", "knowledge"], None)):
        call("prepare", "records.jsonl", *flags, "-o", "out")
        about = json.loads(Path("out/assay.json").read_bytes())["prompts"]
        assert (about and about["name"]) == name
