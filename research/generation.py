"""Asks a model behind an endpoint for answers to the prompts of a prepared folder, and keeps them in a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

import orjson

from ..service.errors import AssayError, UnreadableInput, UsageError
from ..service.messages import message_text
from ..service.records.jobs.manifest import MAX_NAMED, SHOWN_DIGITS, Manifest
from ..service.records.output.output_file import Write, appended_file
from ..service.tasks.endpoint import ChatEndpoint, EndpointFault, choice_text, in_parallel, whole_lines
from ..service.terminal import Progress
from ..service.wording import first_n, named, plural

TEST, ALL = "test", "all"
BEGINNING = b'{"id":"'
FIRST = 3  # prompts that are asked one by one until there is an answer
ROUNDS = 3  # of faults alone, in as many requests as are concurrent, after which the server counts as lost
OF_A_PROMPT = (400, 413, 422)
"""Statuses that may be due to one prompt, such as one that is too long."""
ADVICE = {
    401: "; its key is the environment variable ASSAY_GENERATE_KEY",
    403: "; its key is the environment variable ASSAY_GENERATE_KEY",
    404: "; --endpoint is its address up to /v1, and --model a model that it has",
}


MAX_USAGE = 4096  # bytes of the numbers of tokens that a server sends with an answer; more are not kept
MAX_FINISH = 40  # characters of the reason why an answer ended
MAX_FINISHES = 8  # reasons that are listed


class NoAnswer(AssayError):
    """The server does not answer, or no longer."""


class Sampling(NamedTuple):
    """How answers are sampled; None leaves it to the server. Sample k of a prompt has the seed `seed` + k."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None

    def of_sample(self, sample: int) -> dict[str, Any]:
        return {**self._asdict(), "seed": None if self.seed is None else self.seed + sample}


class QuestionSample(NamedTuple):
    id: str
    sample: int

    def __str__(self) -> str:
        return f"{named(self.id)}, sample {self.sample}"


class GenerateJob(NamedTuple):
    """What is asked; split: `train`, `test`, `all`, or None for `test` if there is one. limit: of the rows."""

    manifest: Manifest
    sampling: Sampling
    split: str | None = None
    samples: int = 1
    limit: int | None = None
    concurrency: int = 1

    def questions(self) -> list[QuestionSample]:
        """Return the questions, prompt by prompt; raises UsageError if rows have no prompt, or a split no rows."""
        folder, entries = self.manifest.folder, self.manifest.entries.values()
        splits = {entry.split for entry in entries}
        split = self.split or (TEST if TEST in splits else ALL)
        if split not in (ALL, *splits):
            raise UsageError(f"{folder} has no rows of the split {split}")
        ids = [entry.id for entry in entries if split in (ALL, entry.split)][: self.limit]
        if missing := [name for name in ids if name not in self.manifest.prompts]:
            raise UsageError(f"{folder}: {plural(len(missing), 'row')} without a prompt: {first_n(missing, MAX_NAMED)}")
        return [QuestionSample(name, sample) for name in ids for sample in range(self.samples)]


class AnswersFile:
    """The answers that a file has, and the file, to which answers are added.

    finished: how many answers ended for each reason. Raises UnreadableInput for a file with anything else than answers
    to the manifest's rows by this model with this sampling.
    """

    def __init__(self, path: str, write: Write, manifest: Manifest, model: str, sampling: Sampling) -> None:
        self.path = path
        self.answered: set[QuestionSample] = set()
        self.finished: Counter[str] = Counter()
        self.empty = 0
        self._write = write
        self._sampling = sampling
        prompts = manifest.about.get("prompts")
        named = {name: prompts[name] for name in ("name", "sha256")} if prompts else None
        self._about = {"model": model, "manifest": manifest.digest, "prompts": named}
        self._prompts = {
            name: sha256(orjson.dumps(messages)).hexdigest() for name, messages in manifest.prompts.items()
        }
        with open(self.path, "rb") as stream:
            for number, line in whole_lines(stream, BEGINNING):
                self._count(line, f"{self.path}: line {number}")

    def line(self, question: QuestionSample, reply: Any) -> bytes:
        """Return the line with an answer, from a chat completion; raises as `ChatEndpoint.ask` permits."""
        choice = reply["choices"][0]
        choice_text(choice)  # raises for what is not a text
        answer = {
            **question._asdict(),
            "response": message_text(choice["message"]) or "",
            **self._settings(question),
            "finish_reason": finish_reason(choice),
        }
        usage = reply.get("usage")
        if usage and len(orjson.dumps(usage)) <= MAX_USAGE:
            answer["usage"] = usage
        return orjson.dumps(answer)

    def add(self, line: bytes) -> None:
        """Add an answer to the file; raises OSError."""
        self._write([line])
        self._count(line, self.path)

    def _settings(self, question: QuestionSample) -> dict[str, Any]:
        """Return what identifies the origin of an answer, which the file has with each."""
        sampling = self._sampling.of_sample(question.sample)
        return {**self._about, "prompt_sha256": self._prompts.get(question.id), **sampling}

    def _count(self, line: bytes, place: str) -> None:
        try:
            answer = orjson.loads(line)
            question = QuestionSample(answer["id"], answer["sample"])
            response, finish = answer["response"], answer["finish_reason"]
            if not (isinstance(question.id, str) and isinstance(question.sample, int) and isinstance(response, str)):
                raise TypeError
            expected = self._settings(question)
            settings = {name: answer[name] for name in expected}
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise UnreadableInput(f"{place} is not an answer of assay generate") from None
        if differences := [
            f"{name} {shown(settings[name])}, not {shown(value)}"
            for name, value in expected.items()
            if settings[name] != value
        ]:
            raise UnreadableInput(f"{place} has other settings: {'; '.join(differences)}. Name another file with -o")
        if question in self.answered:
            raise UnreadableInput(f"{place} is a second answer: {question}")
        self.answered.add(question)
        self.finished[named(finish or "unknown", MAX_FINISH)] += 1
        self.empty += not response


def shown(value: Any) -> str:
    """Return a setting of a file as JSON, a digest by its beginning."""
    if isinstance(value, Mapping):
        return " ".join(shown(part) for part in value.values())
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text[:SHOWN_DIGITS] if len(text) == 64 else named(text)


def finish_reason(choice: Mapping[str, Any]) -> str | None:
    """Return why a server says that an answer ended, shortened; raises TypeError for anything but a text or null."""
    reason = choice.get("finish_reason")
    if reason is not None and not isinstance(reason, str):
        raise TypeError
    return None if reason is None else named(reason, MAX_FINISH)


class GenerateSummary(NamedTuple):
    """What was asked, and what came of it: numbers of answers. file: with all answers, also earlier ones."""

    file: AnswersFile
    asked: int
    earlier: int
    faults: int

    def lines(self) -> list[str]:
        """Return what the terminal shows."""
        answered = self.asked - self.faults
        lines = [f"answers   {self.earlier + answered:,} of {self.earlier + self.asked:,}: {self.file.path}"]
        if self.earlier:
            lines.append(f"new       {answered:,}")
        finished = self.file.finished.most_common()
        ends = first_n([f"{reason} {count:,}" for reason, count in finished], MAX_FINISHES)
        return [*lines, f"finished  {ends}"] if ends else lines

    def warnings(self) -> list[str]:
        """Return what is wrong with answers of the file."""
        counts = {
            "ended at the limit of tokens": self.file.finished["length"],
            "without text": self.file.empty,
        }
        return [f"{plural(count, 'answer')} {what}" for what, count in counts.items() if count]


def generate(job: GenerateJob, endpoint: ChatEndpoint, path: str, quiet: bool = True) -> GenerateSummary:
    """Ask for the answers that the file lacks, and add each as it arrives; list faults on standard error.

    Raises NoAnswer if the server does not answer, UnreadableInput for a file of other answers, UsageError and OSError.
    """
    questions = job.questions()
    faults = 0
    with appended_file(path, BEGINNING) as write:
        file = AnswersFile(path, write, job.manifest, endpoint.model, job.sampling)
        missing = [question for question in questions if question not in file.answered]
        with Progress(len(missing), quiet) as progress:
            for question, answer in answers(job, missing, endpoint, file):
                if isinstance(answer, EndpointFault):
                    faults += 1
                    progress.message(f"{question}: {answer}")
                else:
                    file.add(answer)
                progress.advance(1, 1)
    return GenerateSummary(file, len(missing), len(questions) - len(missing), faults)


def answers(
    job: GenerateJob, questions: list[QuestionSample], endpoint: ChatEndpoint, file: AnswersFile
) -> Iterator[tuple[QuestionSample, bytes | EndpointFault]]:
    """Yield each question with the line of its answer, or with its fault, as they arrive.

    Until there is an answer, questions are asked one by one. Raises NoAnswer if the first ones have faults that are due
    to the server or to what all questions share, and later if there are only faults.
    """

    def ask(question: QuestionSample) -> bytes | EndpointFault:
        sampling = job.sampling.of_sample(question.sample)
        options = {name: value for name, value in sampling.items() if value is not None}
        try:
            return endpoint.ask(job.manifest.prompts[question.id], options, lambda reply: file.line(question, reply))
        except EndpointFault as fault:
            return fault

    waiting, proven = iter(questions), bool(file.answered)
    for number, question in enumerate(islice(waiting, FIRST), start=1):
        answer = ask(question)
        if isinstance(answer, EndpointFault) and (answer.status not in OF_A_PROMPT or (number == FIRST and not proven)):
            raise NoAnswer(f"{endpoint.address} does not answer: {answer}{ADVICE.get(answer.status or 0, '')}")
        yield question, answer
        if not isinstance(answer, EndpointFault):
            break
    in_a_row = 0
    for question, answer in in_parallel(ask, waiting, job.concurrency):
        yield question, answer
        is_lost = isinstance(answer, EndpointFault) and answer.status not in OF_A_PROMPT
        in_a_row = in_a_row + 1 if is_lost else 0
        if in_a_row == ROUNDS * job.concurrency:
            raise NoAnswer(f"{endpoint.address} no longer answers: {answer!s}, {in_a_row} times in a row")
