"""Words of texts, n-grams, and sequences of words.

BLEU (Papineni et al. 2002) is NLTK's, and ROUGE (Lin 2004) the one of the package rouge-score, with stems. Both are
slower: here, a kernel computes the longest common subsequences of all records at once.

Published scores were computed with NLTK 3.8 or 3.9, whose rules are the default; 3.10 also splits dashes (U+2012 to
U+2015) and every leading apostrophe, and ends sentences before curly quotes. Splitting into sentences is NLTK's Punkt
(Kiss and Strunk 2006) with its trained English model; splitting into words follows the Penn Treebank's conventions, as
substitutions that take linear time each.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from types import ModuleType
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator

from ....kernels.column import frozen
from ....kernels.sequences import lcs_lengths
from ....kernels.warmup import warmup
from ..task import import_optional, not_installed

NAMES_AT_ONCE = 1 << 18


def compare_sequences(kernel: Callable[..., None], pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> np.ndarray:
    """Return what `lcs_lengths` or `levenshtein_distances` gives for each pair of sequences, int64 (len(pairs),)."""
    warmup()
    results = np.zeros(len(pairs), np.int64)
    for piece in pieces([len(first) + len(second) for first, second in pairs], NAMES_AT_ONCE):
        columns, symbols = numbered_columns(pairs[piece])
        kernel(results[piece], *columns, symbols)
    return results


def numbered_columns(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> tuple[list[np.ndarray], int]:
    """Return values and offsets of both sides, int64 and read-only, and an upper bound of the numbers.

    Names are numbered pair by pair, so that the kernels' tables stay small.
    """
    sides: tuple[list[int], list[int]] = ([], [])
    offsets: tuple[list[int], list[int]] = ([0], [0])
    symbols = 1
    for pair in pairs:
        numbers: dict[str, int] = {}
        for names, side, ends in zip(pair, sides, offsets, strict=True):
            side.extend([numbers.setdefault(name, len(numbers)) for name in names])
            ends.append(len(side))
        symbols = max(symbols, len(numbers))
    arrays = (sides[0], offsets[0], sides[1], offsets[1])
    return [frozen(np.array(values, np.int64), np.int64) for values in arrays], symbols


def pieces(sizes: Iterable[int], max_size: int) -> Iterator[slice]:
    """Yield slices of consecutive rows whose sizes sum to at most `max_size`, or of one row that is larger."""
    begin = total = row = 0
    for row, size in enumerate(sizes, start=1):
        total += size
        if total > max_size and row - 1 > begin:
            yield slice(begin, row - 1)
            begin, total = row - 1, size
    if row > begin:
        yield slice(begin, row)


NO_SMOOTHING = 0.0
"""Without a match of some order, NLTK uses the smallest positive float as its precision: about 1e-154 for BLEU-2."""
METHOD_1 = 0.1
WORD = re.compile(r"[a-z0-9]+")
MAX_UNSTEMMED = 3


def ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[k:] for k in range(n)), strict=False))


def sentence_bleu(
    reference: Sequence[str], hypothesis: Sequence[str], order: int = 2, smoothing: float = METHOD_1
) -> float:
    """Return BLEU with equal weights for the orders 1 to `order`; 0 without a word in common."""
    logarithms = []
    for n in range(1, order + 1):
        ours, theirs = ngrams(hypothesis, n), ngrams(reference, n)
        matches = sum(min(count, theirs[gram]) for gram, count in ours.items())
        if n == 1 and not matches:
            return 0.0
        precision = (matches or smoothing) / max(1, len(hypothesis) - n + 1)
        logarithms.append(math.log(precision or sys.float_info.min) / order)
    is_shorter = len(hypothesis) <= len(reference)
    brevity_penalty = math.exp(1 - len(reference) / len(hypothesis)) if is_shorter else 1.0
    return brevity_penalty * math.exp(math.fsum(logarithms))


def rouge_words(text: str, stem: Callable[[str], str]) -> list[str]:
    return [stem(word) if len(word) > MAX_UNSTEMMED else word for word in WORD.findall(text.lower())]


def precision_and_recall(common: int, predicted: int, true: int, epsilon: float = 0.0) -> tuple[float, float, float]:
    """Return precision, recall and F1 from three counts; 0 if nothing is common."""
    if not common:
        return 0.0, 0.0, 0.0
    precision, recall = common / predicted, common / true
    return precision, recall, 2 * precision * recall / (precision + recall + epsilon)


def f_measure(common: int, predicted: int, true: int) -> float:
    return precision_and_recall(common, predicted, true)[2]


def rouge_n(theirs: Counter[tuple[str, ...]], ours: Counter[tuple[str, ...]]) -> float:
    """Compare the n-grams of a reference and of a response."""
    return f_measure((ours & theirs).total(), ours.total(), theirs.total())


def rouge_l(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[float]:
    lengths = compare_sequences(lcs_lengths, pairs).tolist()
    return [
        f_measure(common, len(hypothesis), len(reference))
        for common, (reference, hypothesis) in zip(lengths, pairs, strict=True)
    ]


VERSION_OF_NUMBER = {3.9: "3.9", 3.1: "3.10"}
"""The version that a number means: a command line reads the version as JSON."""
NltkRules = Annotated[
    Literal["3.9", "3.10"],
    BeforeValidator(lambda value: VERSION_OF_NUMBER.get(value, value) if isinstance(value, float) else value),
]
EXTRA = "lexical"
CACHED_STEMS = 1 << 16
MAX_CONTEXT = 100
MAX_STEMMED = 60
SPACES = re.compile(r"\s+")


class Rule(NamedTuple):
    about: frozenset[str]
    pattern: re.Pattern[str]
    replacement: str


def rules_of(*rules: tuple[str, str, str]) -> tuple[Rule, ...]:
    return tuple(Rule(frozenset(about), re.compile(pattern), replacement) for about, pattern, replacement in rules)


OPENING = rules_of(
    ("«“‘„`", r"[«“‘„]|`+", r" \g<0> "),
    ('"', r'^"', "``"),
    ('`"', "``", r" \g<0> "),
    ("\"'", r"""([ (\[{<])(?:"|'')""", r"\1 `` "),
)
LEADING_APOSTROPHE = {
    "3.9": rules_of(("'", r"(?i)'(?!re|ve|ll|m|t|s|d|n)(\w)\b", r"' \1")),
    "3.10": rules_of(("'", r"(?i)(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)", "' ")),
}
INSIDE = rules_of(
    # The class includes the space: the possessive match avoids trying each split of a long run of spaces.
    (".", r"""([^.])\.([])}>"'»”’ ]*+)\s*$""", r"\1 . \2 "),
    (":,", r"([:,])(\D)", r" \1 \2"),
    (":,", r"[:,]$", r" \g<0> "),
    (".", r"\.{2,}", r" \g<0> "),
    (";@#$%&", r"[;@#$%&]", r" \g<0> "),
)
DASHES = {"3.9": (), "3.10": rules_of(("\u2012\u2013\u2014\u2015", "[\u2012-\u2015]", r" \g<0> "))}
AT_THE_END = rules_of(
    (".", r"""([^.])\.([])}>"']*)\s*$""", r"\1 .\2 "),
    ("?!", r"[?!]", r" \g<0> "),
    ("'", r"([^'])' ", r"\1 ' "),
    ("*", r"\*", r" \g<0> "),
    ("][(){}<>", r"[][(){}<>]", r" \g<0> "),
    ("-", "--", r" \g<0> "),
)
CLOSING = rules_of(
    ("»”’", "[»”’]", r" \g<0> "),
    ("'", "''", r" \g<0> "),
    ('"', '"', " '' "),
)
CLITICS = rules_of(
    ("'\"", "([^' ])('[sSmMdD]?) ", r"\1 \2 "),
    ("'\"", "([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
)
CONTRACTED = re.compile(r"(?i)cannot|d'ye|gimme|gonna|gotta|lemme|more'n|wanna|'tis|'twas")
CONTRACTIONS = [
    re.compile(rf"(?i){pattern}")
    for pattern in (
        r"\b(can)(not)\b",
        r"\b(d)('ye)\b",
        r"\b(gim)(me)\b",
        r"\b(gon)(na)\b",
        r"\b(got)(ta)\b",
        r"\b(lem)(me)\b",
        r"\b(more)('n)\b",
        r"\b(wan)(na)(?=\s)",
        r" ('t)(is)\b",
        r" ('t)(was)\b",
    )
]


def treebank_words(sentence: str, rules: NltkRules) -> list[str]:
    present = set(sentence)
    for stage in (OPENING, LEADING_APOSTROPHE[rules], INSIDE, DASHES[rules], AT_THE_END):
        sentence = substituted(stage, sentence, present)
    sentence = substituted(CLOSING, f" {sentence} ", present)
    sentence = substituted(CLITICS, SPACES.sub(" ", sentence), present)
    if CONTRACTED.search(sentence):
        for pattern in CONTRACTIONS:
            sentence = pattern.sub(r" \1 \2 ", sentence)
    return sentence.split()


def substituted(stage: Iterable[Rule], text: str, present: set[str]) -> str:
    for about, pattern, replacement in stage:
        if not present.isdisjoint(about):
            text = pattern.sub(replacement, text)
    return text


@cache
def word_tokenizer(rules: NltkRules) -> Callable[[str], list[str]]:
    split = sentence_splitter(rules)
    return lambda text: [word for sentence in split(text) for word in treebank_words(sentence, rules)]


def sentence_splitter(rules: NltkRules) -> Callable[[str], list[str]]:
    punkt = import_optional("nltk.tokenize.punkt", EXTRA, "Splitting text into words")
    closers = "" if rules == "3.9" else "\u2018\u2019\u201c\u201d\xab\xbb"

    class Language(punkt.PunktLanguageVars):  # type: ignore[misc, name-defined]
        """The marks that end the last word of a sentence, and those that belong to it, in these rules."""

        re_boundary_realignment = re.compile(rf"""["')\]}}{closers}]+?(?:\s+|(?=--)|$)""", re.MULTILINE)

        @property
        def _re_non_word_chars(self) -> str:
            return rf"""(?:[)";}}\]*:@'({{\[{closers}?!])"""

    class Splitter(punkt.PunktSentenceTokenizer):  # type: ignore[misc, name-defined]
        """Caches its decisions: the same words end sentences again and again."""

        def text_contains_sentbreak(self, text: str) -> bool:
            return bool(cached(text) if len(text) <= MAX_CONTEXT else super().text_contains_sentbreak(text))

    tokenizer: Any = Splitter(english_model(punkt), lang_vars=Language())
    cached = lru_cache(1 << 14)(super(Splitter, tokenizer).text_contains_sentbreak)
    return lambda text: list(tokenizer.tokenize(text))


def english_model(punkt: ModuleType) -> Any:
    find = import_optional("nltk.data", EXTRA, "Splitting text into words").find
    try:
        parameters = punkt.load_punkt_params(find("tokenizers/punkt_tab/english/"))
    except LookupError:
        raise not_installed(
            "task",
            "Splitting text into sentences needs NLTK's English model",
            "python -m nltk.downloader punkt_tab, or let NLTK_DATA name a folder that has it",
        ) from None
    parameters.ortho_context = Contexts(parameters.ortho_context)
    return parameters


class Contexts(dict[str, int]):
    def __missing__(self, word: str) -> int:
        return 0


@cache
def porter_stemmer() -> Callable[[str], str]:
    stem: Callable[[str], str] = import_optional("nltk.stem.porter", EXTRA, "Stemming").PorterStemmer().stem
    cached = lru_cache(CACHED_STEMS)(stem)

    return lambda word: cached(word) if len(word) <= MAX_STEMMED else stem(word)


# The English stop words of the Glasgow Information Retrieval Group, as used by scikit-learn and KeyBERT.
ENGLISH = """
a about above across after afterwards again against all almost alone along already also although always am among
amongst amoungst amount an and another any anyhow anyone anything anyway anywhere are around as at back be became
because become becomes becoming been before beforehand behind being below beside besides between beyond bill both
bottom but by call can cannot cant co con could couldnt cry de describe detail do done down due during each eg eight
either eleven else elsewhere empty enough etc even ever every everyone everything everywhere except few fifteen
fifty fill find fire first five for former formerly forty found four from front full further get give go had has
hasnt have he hence her here hereafter hereby herein hereupon hers herself him himself his how however hundred i ie
if in inc indeed interest into is it its itself keep last latter latterly least less ltd made many may me meanwhile
might mill mine more moreover most mostly move much must my myself name namely neither never nevertheless next nine
no nobody none noone nor not nothing now nowhere of off often on once one only onto or other others otherwise our
ours ourselves out over own part per perhaps please put rather re same see seem seemed seeming seems serious several
she should show side since sincere six sixty so some somehow someone something sometime sometimes somewhere still
such system take ten than that the their them themselves then thence there thereafter thereby therefore therein
thereupon these they thick thin third this those though three through throughout thru thus to together too top
toward towards twelve twenty two un under until up upon us very via was we well were what whatever when whence
whenever where whereafter whereas whereby wherein whereupon wherever whether which while whither who whoever whole
whom whose why will with within without would yet you your yours yourself yourselves
"""
STOP_WORDS = frozenset(ENGLISH.split())
