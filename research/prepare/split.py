"""The split into training and test, by groups of similar records; libraries of actions."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

from ...service.explain.reading import canons
from ...service.records.rows.fields import absent_field, has_field, value_at
from ...service.records.rows.forms import json_text
from ...service.records.rows.rows import value_digest, without_nulls
from ...service.tasks.text.minhash import MinHash, Shingler, template_shingles, without
from .examples import Example, PrepareOptions

TRAIN, TEST = "train", "test"


def seeded_splits(groups: Sequence[str], share: float, seed: int) -> list[str]:
    """Return the split of each record by its group and the wanted share of records in `test`, 0 to below 1.

    Groups are sorted by a hash of the seed and their name; `test` gets the first ones until it is as near as possible
    to its share, at least one record. Groups with more records than that are in `train`, which is never empty. The
    share is met within the size of the largest group. A record of a new group changes nothing but which groups come
    first: groups at the end of `test` may move, the others stay.
    """
    sizes = Counter(groups)
    target = max(1.0, share * len(groups)) if share > 0 else 0.0
    order = sorted(sizes, key=lambda name: blake2b(name.encode(), key=b"%d" % seed, digest_size=16).digest())
    fitting = [name for name in order if sizes[name] <= target]
    if len(fitting) == len(order):
        fitting = fitting[:-1]  # the last one is in train in any case
    test: set[str] = set()
    taken = 0
    for name in fitting:
        if taken + sizes[name] - target >= target - taken:  # without it, the share is at least as near
            break
        test.add(name)
        taken += sizes[name]
    return [TEST if group in test else TRAIN for group in groups]


def held_out_splits(groups: Sequence[str], held_out: Sequence[bool]) -> list[str | None]:
    """Return `test` for records that are held out, and `train` for others; None for those in a group with one."""
    tested = {group for group, out in zip(groups, held_out, strict=True) if out}
    return [TEST if out else None if group in tested else TRAIN for group, out in zip(groups, held_out, strict=True)]


def split_digest(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return the SHA-256 of all rows: [group, id, split] as JSON without spaces, a line each, sorted, in UTF-8."""
    lines = sorted(json_text(list(row)).encode() + b"\n" for row in rows)
    return sha256(b"".join(lines)).hexdigest()


SOURCE_FIELDS = ("exp_name", "protocol", "protocol_id", "protocol_name", "protocol_title", "title")
MIN_TITLE_WORDS = 4
MIN_REFERENCE_WORDS = 8  # shorter references, such as `37 °C`, answer unrelated questions

QUOTED = (
    re.compile(r'"[^"\n]+"|“[^”\n]+”'),
    re.compile(r"(?<!\w)'[^\n]+?'(?!\w)"),
    re.compile(r"(?<!\w)'[^\n]+'(?!\w)"),
)
"""Texts in double, curly or single quotes; in the last also up to the last one, because of the 3' ends of DNA."""


class SplitGroups(NamedTuple):
    names: list[str]
    """A digest of the contents of the group's records: 16 hexadecimal digits, whatever the order of the records."""
    near_duplicates: list[int]
    """Sizes of the sets of records whose texts are equal or similar, from two on, the largest first."""

    def sizes(self) -> list[int]:
        return sorted(Counter(self.names).values(), reverse=True)


def groups_of(examples: Sequence[Example], options: PrepareOptions) -> SplitGroups:
    """Return the groups of records that are connected by any of these.

    Equal or similar questions, references or texts of protocols (words as in docs/rules.md; Jaccard similarity of their
    shingles of at least `options.similarity`), an equal title of a protocol, quoted in the question or in a field, an
    equal id in records of one form, and an equal value of `options.group_field`. Raises NotInstalled without datasketch
    if the similarity is below 1, and FieldError if no record has the field of the group.
    """
    field = options.group_field
    if field is not None and examples and not any(has_field(example.record, field) for example in examples):
        raise absent_field(field, [example.record for example in examples], "--group-field")
    connected = Connected(len(examples))
    minhash = None
    if options.similarity < 1:
        minhash = MinHash(options.similarity, " Or pass --similarity 1 to find only equal texts.")
    for texts in ([example.question for example in examples], [example.text or "" for example in examples]):
        connect_texts(connected, canonical(texts), minhash)
    connect_texts(connected, references_of(examples), minhash)
    near_duplicates = sorted((n for n in Counter(connected.roots()).values() if n > 1), reverse=True)
    contents = [content_digest(example) for example in examples]
    connect_keys(connected, ([content] for content in contents))
    connect_keys(connected, protocols_of(examples))
    connect_keys(connected, own_ids(examples))
    if field is not None:
        values = (value_at(example.record, field) if has_field(example.record, field) else None for example in examples)
        connect_keys(connected, ([] if value is None else [value_digest(value)] for value in values))
    return SplitGroups(names_of(connected.roots(), contents), near_duplicates)


class Connected:
    """Sets of records that are connected (disjoint-set forest)."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def root(self, row: int) -> int:
        while self._parents[row] != row:
            self._parents[row] = self._parents[self._parents[row]]
            row = self._parents[row]
        return row

    def connect(self, first: int, second: int) -> None:
        self._parents[self.root(first)] = self.root(second)

    def roots(self) -> list[int]:
        return [self.root(row) for row in range(len(self._parents))]


def connect_keys(connected: Connected, keys: Iterator[Sequence[Any]]) -> None:
    first: dict[Any, int] = {}
    for row, record_keys in enumerate(keys):
        for key in record_keys:
            connected.connect(row, first.setdefault(key, row))


def connect_texts(connected: Connected, texts: Sequence[str], minhash: MinHash | None) -> None:
    """Connect records whose texts, canonical words, are equal or similar; "" is no text."""
    rows: dict[str, int] = {}
    for row, text in enumerate(texts):
        if text:
            connected.connect(row, rows.setdefault(text, row))
    if minhash is None:
        return
    distinct = sorted(rows)  # so that the order of the records does not matter
    shingler = Shingler(word_number)
    shingles = [shingler(text) for text in distinct]
    template = template_shingles(shingles)
    for first, second in minhash.similar([without(text_shingles, template) for text_shingles in shingles]):
        connected.connect(rows[distinct[first]], rows[distinct[second]])


def word_number(word: str) -> int:
    return int.from_bytes(blake2b(word.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def canonical(texts: Sequence[str]) -> list[str]:
    starts = range(0, len(texts), 1_000)  # bounds the memory
    return [canon for start in starts for canon in canons(texts[start : start + 1_000])]


def references_of(examples: Sequence[Example]) -> list[str]:
    """Return the canonical words of references; "" if they are too short to identify a protocol."""
    texts = canonical([reference_words(example) for example in examples])
    return [text if text.count(" ") + 1 >= MIN_REFERENCE_WORDS else "" for text in texts]


def reference_words(example: Example) -> str:
    """Return the steps of SCORE, or a reference's distinct strings, sorted so that shuffled records are equal."""
    if example.steps:
        return "\n".join(" ".join([step.action, *step.objects, *step.parameters]) for step in example.steps)
    return "\n".join(sorted(set(strings_in(example.reference))))


def strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from strings_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from strings_in(inner)


def protocols_of(examples: Sequence[Example]) -> Iterator[list[Any]]:
    """Yield the titles and numbers of protocols that each record names, in its fields or quoted in its question."""
    for example in examples:
        fields = {name: example.record.get(name) for name in SOURCE_FIELDS}
        quoted = [text[1:-1] for form in QUOTED for text in form.findall(example.question)]
        named = [value for value in fields.values() if isinstance(value, str)]
        titles = [text for text in canons([*quoted, *named]) if text.count(" ") + 1 >= MIN_TITLE_WORDS]
        short = [(name, value) for name, value in fields.items() if isinstance(value, str | int) and value != ""]
        yield [*titles, *short]


def own_ids(examples: Sequence[Example]) -> Iterator[list[Any]]:
    """Yield the id that each record has: if several of one form share it, it names their protocol.

    Ids of records that are held out are apart: the files of a split may be numbered from 0 each.
    """
    for example in examples:
        value = example.record.get("id")
        has_id = isinstance(value, str | int) and value != ""
        yield [(example.dataset, example.held_out, value)] if has_id else []


def content_digest(example: Example) -> bytes:
    """Return a digest of what is asked and answered; the same whatever the file and its format."""
    reference = [list(step) for step in example.steps] or example.reference
    return value_digest([example.task, example.question, example.text, reference])


def with_ids(examples: Sequence[Example]) -> list[Example]:
    """Give each record an id of its own: its own one, or a digest of its content.

    Of several records with one id, each gets a digest of its content after it, and of equal ones `-2` and so on from
    the second.
    """
    counts = Counter(example.id for example in examples)
    identified = list(examples)
    times: Counter[str] = Counter()
    for row in sorted(range(len(examples)), key=lambda row: order_of(examples[row])):
        example = examples[row]
        identifier = example.id
        if not identifier or counts[identifier] > 1:
            parts = [example.type, example.answer, example.prompt]
            digest = value_digest([content_digest(example).hex(), *parts]).hex()[:16]
            identifier = f"{identifier}-{digest}" if identifier else digest
            times[identifier] += 1
            identifier += f"-{times[identifier]}" if times[identifier] > 1 else ""
        identified[row] = example.replaced(id=identifier)
    return identified


def order_of(example: Example) -> tuple[bool, bytes]:
    """Return what orders records whatever their files: only those that are equal in everything have the same."""
    try:
        return example.held_out, value_digest(without_nulls(example.record))
    except TypeError:  # nested too deeply to be encoded
        return example.held_out, content_digest(example)


def names_of(roots: Sequence[int], contents: Sequence[bytes]) -> list[str]:
    """Return the name of the set of each record: the smallest digest of its records, which few new records change."""
    smallest: dict[int, bytes] = {}
    for root, content in zip(roots, contents, strict=True):
        smallest[root] = min(content, smallest.get(root, content))
    return [smallest[root].hex()[:16] for root in roots]


PAPER_DISTRACTORS = 4  # at most, in SciRecipe-Eval's records of level 2 (appendix B of the paper)
Library = dict[str, str]  # actions in lower case by their canonical text (docs/rules.md, Words)


class Libraries:
    """The libraries of a data set: first `add` every example, then ask for the actions of each.

    A library depends on the seed, the content and the split of its record and the set of all actions, not on the place
    or the order of records.
    """

    def __init__(self, seed: int, distractors: int | None = None) -> None:
        self.completed = 0  # actions of references that their libraries lack, which `actions_for` has added
        self._seed = seed
        self._distractors = distractors
        self._spellings: set[str] = set()
        self._pool: list[tuple[str, str]] | None = None

    def add(self, example: Example) -> None:
        self._spellings.update(_spelled(step.action for step in example.steps), _spelled(example.library or ()))
        self._pool = None

    def actions_for(self, example: Example, split: str) -> tuple[str, ...] | None:
        """Return the distinct actions that an answer may use, compared by words; None if the record has no library."""
        if example.library is None:
            return None
        actions = _library(example.library)
        before = len(actions)
        actions |= _library(step.action for step in example.steps)
        self.completed += len(actions) - before
        content = json.dumps([self._seed, example.question, example.steps, example.library])
        generator = random.Random(int.from_bytes(hashlib.sha256(content.encode()).digest(), "big"))
        most = self._distractors
        if most is None:
            most = PAPER_DISTRACTORS if split == TEST and example.level == "2" else 0
        if most and not example.has_distractors:
            actions |= self._drawn(actions, generator, most)
        shuffled = sorted(actions.values())
        generator.shuffle(shuffled)
        return tuple(shuffled)

    def _drawn(self, actions: Library, generator: random.Random, most: int) -> Library:
        if self._pool is None:
            self._pool = sorted(_library(sorted(self._spellings)).items())
        number = generator.randint(1, most)
        # At most len(actions) of the drawn actions are in the library already.
        drawn = generator.sample(self._pool, min(len(self._pool), number + len(actions)))
        return dict([(canon, action) for canon, action in drawn if canon not in actions][:number])


def _library(actions: Iterable[str]) -> Library:
    library: Library = {}
    spelled = _spelled(actions)
    for action, canon in zip(spelled, canons(spelled), strict=True):
        if canon:
            library.setdefault(canon, action)
    return library


def _spelled(actions: Iterable[str]) -> list[str]:
    """Return actions as libraries name them: on one line, in lower case, without the quotes that enclose them."""
    return [" ".join(action.lower().replace('"', "'").split()) for action in actions]
