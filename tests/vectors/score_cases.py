"""Inputs of rewards: the worked examples of `tests/cases`, every boundary and setting, and seeded answers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from tests.cases import BAD_REFERENCES, Case, reading, rewards
from tests.cases.reading import TWO_KEY, TWO_ORC
from tests.cases.writing import KEY, ONE_STEP, ORC, Steps, answer, step, told
from tests.vectors import seeded
from tests.vectors.seeded import Dice

SEEDED, SEEDED_SETTINGS, SEEDED_DAMAGE, SEEDED_POWERS = 100, 80, 50, 40
POWERS = ("10⁶ cells/ml", "10⁻³ M", "5 cm²", "2×10⁵", "106 cells/ml")

Rows = Iterator[tuple[str, dict[str, Any]]]

EXAMPLES: dict[str, list[Case]] = {
    "sections": reading.SECTIONS,
    "lines": reading.LINES,
    "json": reading.JSON,
    "gates": reading.GATES,
    "limits": reading.LIMITS,
    "paper": [*rewards.C2, *rewards.C3],
    "scale": [*rewards.GAPS, *rewards.LENGTHS],
    "content": rewards.CONTENT,
    "position": rewards.POSITION,
    "total": rewards.TOTALS,
    "reference": rewards.REFERENCES,
}


def row(name: str, response: str, reference: Any = None, **config: Any) -> tuple[str, dict[str, Any]]:
    """Return a name and an input; a reference is a text, an object or a list of steps, by default `ONE_STEP`."""
    steps = ONE_STEP if reference is None else reference
    given = {"steps": steps} if isinstance(steps, list) else steps
    return name, {"reference": given, "response": response, "config": config}


def protocol(actions: str) -> Steps:
    return [step(action) for action in actions.split()]


def rows() -> Rows:
    """Yield every input whose texts have no lone surrogates: JSON cannot carry them everywhere."""
    parts = examples, reasons, sections, coverage, lengths, limits, numbers, objects, corners, every_setting, drawn
    for name, given in itertools.chain.from_iterable(part() for part in parts):
        try:
            json.dumps(given, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            continue
        yield name, given


def examples() -> Rows:
    for group, cases in EXAMPLES.items():
        for case in cases:
            yield row(f"{group}/{case.name}", case.response, case.reference, **case.settings)
    for name, reference, _reason in BAD_REFERENCES:
        yield row(f"reference/{name}", answer(), reference)


def reasons() -> Rows:
    """Yield every reason under a scale that maps SCORE 0 to another reward, and pairs of faults: the first decides."""
    faults = {
        "ok": answer(),
        "too-long": "x" * 101,
        "think-not-opened": answer().removeprefix("<think>"),
        "missing-sections": "Add the PBS.",
        "no-steps": answer(""),
        "bad-step-line": answer("Add the PBS."),
        "bad-step-json": answer("Step 1: {action}"),
        "bad-step-schema": answer('Step 1: {"action": "add"}'),
        "key-numbering": answer(KEY.replace("1", "2", 1)),
        "orc-numbering": answer(KEY, ORC.replace("1", "2", 1)),
        "step-count": answer(KEY, TWO_ORC),
        "low-coverage": answer(KEY, "Step 1: Add it."),
    }
    for name, response in faults.items():
        limit = {"max_response_bytes": 100} if name == "too-long" else {}
        for scale in ("unit", "shift"):
            yield row(f"reason/{name}-{scale}", response, reward_scale=scale, **limit)
        yield row(f"reason/{name}-total-sum", response, total="sum", **limit)
    yield row("reason/schema-before-numbering", answer("Step 3: {}"))
    yield row("reason/line-before-json", answer("Step one\nStep 2: {"))
    yield row("reason/json-before-line", answer("Step 1: {]}\nStep two"))
    yield row("reason/key-numbering-before-step-count", answer(f"{KEY}\n{KEY}", ORC))


def sections() -> Rows:
    whole = answer()
    yield row("sections/chat-tokens-around", f"<|im_start|>assistant\n{whole}<|im_end|>\n<|endoftext|>")
    yield row("sections/answer-twice", f"{whole}\n{answer('')}")
    yield row("sections/empty-answer-first", f"{answer('')}\n{whole}")
    yield row("sections/think-opened-twice", whole.replace("<think>t", "<think>so <think>t"))
    yield row("sections/tags-of-a-prompt-before", f"Use <think></think> and <key></key>.\n{whole}")
    yield row(
        "sections/prompt-with-all-tags-before", "<think>…</think> <key>…</key> <orc>…</orc> <note>…</note>\n" + whole
    )
    yield row("sections/end-of-think-in-think", whole.replace("t</think>", "t</think> more</think>"))
    yield row("sections/attributes-are-no-tag", whole.replace("<key>", "<key >"))
    yield row("sections/note-is-empty", answer(note=""))
    yield row("sections/orc-is-empty", answer(orc=""))
    yield row("sections/no-white-space-between", whole.replace(">\n<", "><"))
    yield row("sections/prefilled-with-an-answer-before", "t</think> no\n" + whole, think_prefilled=True)
    yield row("sections/prefilled-but-closed-at-once", whole.removeprefix("<think>t"), think_prefilled=True)


def coverage() -> Rows:
    """Yield steps of 20 different words, of which the prose lacks one or two."""
    words = [f"w{k}" for k in range(19)]

    def covered(share: int, total: int, **config: Any) -> tuple[str, str, dict[str, Any]]:
        steps = [step("add", "|".join(words[: total - 1]))]
        prose = " ".join(["add", *words[: total - 1]][:share])
        return answer(seeded.key_lines(steps), f"Step 1: {prose}"), "|".join(words[: total - 1]), config

    for name, share, total, config in [
        ("at-threshold", 19, 20, {}),
        ("one-word-below-threshold", 18, 19, {}),
        ("two-words-below-threshold", 18, 20, {}),
        ("at-another-threshold", 3, 4, {"min_coverage": 0.75}),
        ("below-another-threshold", 2, 3, {"min_coverage": 0.75}),
        ("third-at-its-own-double", 1, 3, {"min_coverage": 1 / 3}),
        ("all-wanted", 20, 20, {"min_coverage": 1.0}),
        ("all-wanted-one-missing", 19, 20, {"min_coverage": 1.0}),
        ("none-wanted-none-there", 0, 4, {"min_coverage": 0.0}),
    ]:
        response, objects_of, settings = covered(share, total, **config)
        yield row(f"coverage/{name}", response, [step("add", objects_of)], **settings)
    yield row("coverage/word-inside-a-word", answer(KEY, "Step 1: Add PBST for 15 minutes"))
    yield row("coverage/word-across-words", answer(KEY.replace("pbs", "p b"), "Step 1: addp b5 min"))
    yield row("coverage/unit-of-another-spelling", answer(KEY, "Step 1: Add PBS, wait 5 mins"))
    yield row("coverage/same-quantity-in-another-unit", answer(KEY, "Step 1: Add PBS, wait 300 s"))
    yield row("coverage/number-in-words", answer(KEY, "Step 1: Add PBS, wait five minutes"))
    yield row("coverage/thousands-comma", answer(KEY.replace("5 min", "12000 rpm"), "Step 1: add PBS at 12,000 rpm"))


def lengths() -> Rows:
    """Yield numbers of steps around M = max(1, ⌊0.6 m⌋), and means of words around their limit."""
    for m in range(1, 13):
        cliff = max(1, 6 * m // 10)
        for d in sorted({0, 1, cliff - 1, cliff, cliff + 1}):
            for n in sorted({m - d, m + d}):
                if n > 0:
                    given = " ".join("abcdefghijklmnopqrstuvwxyz"[:n])
                    expected = protocol(" ".join("abcdefghijklmnopqrstuvwxyz"[:m]))
                    yield row(f"scale/m-{m}-n-{n}", told(protocol(given)), expected)
    for name, fillers in [("30", (28, 30)), ("30.5", (29, 30)), ("29.5", (28, 29)), ("1000", (999, 999))]:
        key = seeded.key_lines(protocol("a b"))
        orc = "\n".join(f"Step {i}: {'ab'[i - 1]}{' so' * count}" for i, count in enumerate(fillers, 1))
        for penalty in ("absolute", "relative"):
            yield row(f"scale/mean-words-{name}-{penalty}", answer(key, orc), protocol("a b"), length_penalty=penalty)
    silent = answer(seeded.key_lines(protocol("a")), "Step 1:")
    yield row("scale/no-words-counted", silent, protocol("a"), min_coverage=0.0)


def limits() -> Rows:
    """Yield sizes at and over the limits: bytes are counted, not characters, and without a prefilled tag."""
    for name, text in [
        ("characters-at-262144-bytes", "µ" * 131_072),
        ("characters-at-262145-bytes", "µ" * 131_072 + "x"),
        ("a-full-answer-at-262144-bytes", answer() + " " * (262_144 - len(answer()))),
        ("a-full-answer-at-262145-bytes", answer() + " " * (262_145 - len(answer()))),
    ]:
        yield row(f"limits/{name}", text)
    bare = answer().removeprefix("<think>")
    for size in (len(bare), len(bare) - 1):
        name = "at" if size == len(bare) else "over"
        yield row(f"limits/prefilled-{name}-the-limit", bare, think_prefilled=True, max_response_bytes=size)
    short = '{"action":"a","objects":[],"parameters":[]}'
    for n in (1_024, 1_025):
        key = "\n".join(f"Step {i}: {short}" for i in range(1, n + 1)) if n == 1_024 else f"Step 1: {short}\n" * n
        orc = "\n".join(f"Step {i}: a" for i in range(1, n + 1)) if n == 1_024 else "Step 1: a\n" * n
        yield row(f"limits/{n}-steps", answer(key, orc), f"Step 1: {short}\n" * 1_024)
        yield row(f"limits/reference-of-{n}-steps", answer(), f"Step 1: {short}\n" * n)
        yield row(f"limits/{n}-prose-steps", answer(KEY, "Step 1: a\n" * n))
        yield row(f"limits/{n}-key-lines-that-are-no-steps", answer("x\n" * n))
    fits = KEY.replace("pbs", "p" * (262_144 - len(KEY) + 3))
    yield row("limits/reference-of-262144-bytes", answer(), fits)
    yield row("limits/reference-of-262145-bytes", answer(), fits + " ")
    for depth in (99, 100):
        deep = KEY.replace('["pbs"]', "[" * depth + "]" * depth)
        yield row(f"limits/json-depth-{depth + 1}", answer(deep))
        deep = KEY.replace('["pbs"]', '{"a":' * depth + "[]" + "}" * depth)
        yield row(f"limits/json-depth-of-objects-{depth + 1}", answer(deep))
        yield row(f"limits/json-depth-of-objects-{depth + 2}-with-an-array", answer(deep.replace("[]", "[[]]", 1)))


def numbers() -> Rows:
    ten = protocol(" ".join("abcdefghij"))
    yield row("numbering/ten-steps", told(ten), ten)
    yield row("numbering/text-order-of-ten", told(ten).replace("Step 10:", "Step 2:", 1), ten)
    for name, number in {
        "zero": "0",
        "signed": "+1",
        "negative": "-1",
        "decimal": "1.0",
        "spaced": "1 1",
        "over-64-bits": str(2**64 + 1),
        "leading-zeros": "0001",
        "only-zeros": "000",
        "hexadecimal": "0x1",
        "with-a-comma": "1,",
    }.items():
        yield row(f"numbering/key-{name}", answer(KEY.replace("1", number, 1)))
        yield row(f"numbering/prose-{name}", answer(KEY, ORC.replace("1", number, 1)))
    yield row("numbering/reference-is-not-checked", answer(), KEY.replace("1", "7", 1))
    yield row("numbering/second-step-missing", answer(f"{KEY}\n{KEY.replace('1', '3', 1)}", TWO_ORC))
    yield row("numbering/both-right", answer(TWO_KEY, TWO_ORC), [*ONE_STEP, *ONE_STEP])


def objects() -> Rows:
    """Yield Obj around 0.5, from which Par counts, and where words take the place of objects."""
    for name, predicted, wanted in [
        ("obj-at-half", step("a", "b|c", "5 min"), step("a", "b", "5 min")),
        ("obj-below-half", step("a", "b|c|d", "5 min"), step("a", "b", "5 min")),
        ("obj-above-half", step("a", "b|c", "5 min"), step("a", "b|c|d", "5 min")),
        ("obj-by-words-at-half", step("a", "cold b", "5 min"), step("a", "b", "5 min")),
        ("obj-by-words-below-half", step("a", "very cold b", "5 min"), step("a", "b", "5 min")),
        ("one-shared-object-hides-shared-words", step("a", "b|cold c", "5 min"), step("a", "b|warm c", "5 min")),
        ("objects-right-lower-than-words", step("a", "lysis buffer|pbs"), step("a", "cold lysis buffer|sterile pbs")),
        ("one-object-made-right", step("a", "cold lysis buffer|pbs"), step("a", "cold lysis buffer|sterile pbs")),
        ("objects-twice", step("a", "b|b|B"), step("a", "b")),
        ("objects-without-words", step("a", "–|…"), step("a")),
        ("order-of-words-in-an-object", step("a", "buffer lysis"), step("a", "lysis buffer")),
        ("same-amount-in-another-unit", step("a", "b", "5000 µl"), step("a", "b", "5 ml")),
        ("degrees-in-two-spellings", step("a", "b", "37℃"), step("a", "b", "37 °C")),
        ("times-g-in-two-spellings", step("a", "b", "300×g"), step("a", "b", "300 x g")),
        ("superscript", step("a", "b", "10⁶ cells"), step("a", "b", "10^6 cells")),
        ("superscript-is-no-larger-number", step("a", "b", "10⁶ cells"), step("a", "b", "106 cells")),
        ("superscript-with-a-sign", step("a", "b", "10⁻³ M"), step("a", "b", "10^-3 M")),
        ("superscript-of-a-unit", step("a", "b", "5 cm²"), step("a", "b", "5 cm2")),
        ("molar-and-millimetre", step("a", "b", "5 mM"), step("a", "b", "5 mm")),
        ("objects-on-one-side", step("a", "b"), step("a")),
    ]:
        for similarity in ("fallback", "max"):
            config = {"object_similarity": "max"} if similarity == "max" else {}
            yield row(f"content/{name}{'-max' if config else ''}", told([predicted]), [wanted], **config)
    # Thirds and sixths whose sum in the order of the steps is not the nearest double.
    parts = [step(name, "|".join("bcdefg"[: 1 + k % 6]), "5 min") for k, name in enumerate("abcdefghij")]
    whole = [step(name, "b", "5 min|4 °C") for name in "abcdefghij"]
    yield row("content/terms-of-many-sizes", told(parts), whole)
    yield row("content/terms-of-many-sizes-reversed", told(parts[::-1]), whole[::-1])
    shifted = [step("x"), *parts[:-1]]
    yield row("content/terms-of-many-places", told(shifted), whole)
    for name, predicted, wanted in [
        ("action-not-there-keeps-the-place", "x b c", "a b c"),
        ("action-behind-the-last-match", "b a c", "a b c"),
        ("equal-actions-earliest-first", "a a", "a b a"),
        ("equal-actions-more-than-there-are", "a a a", "a"),
        ("nothing-shared", "x y", "a b"),
        ("reversed", "d c b a", "a b c d"),
    ]:
        for order in ("strict", "lcs"):
            yield row(f"anchors/{name}-{order}", told(protocol(predicted)), protocol(wanted), order=order)


def corners() -> Rows:
    """Yield corners of the rules, each of which decides a number that no other case depends on."""
    for name, given, wanted in [
        ("sign-before-a-number", "-20 celsius", "−20 °C"),
        ("sign-before-a-number-and-its-unit", "-20celsius", "-20 c"),
        ("sign-is-part-of-the-number", "-20 °C", "20 °C"),
        ("number-with-two-points", "1.5.2 minutes", "1.5.2 min"),
        ("number-with-two-points-and-its-unit", "1.5.2minutes", "1.5.2 min"),
        ("digits-that-are-not-ascii", "٣ minutes", "٣ min"),
        ("digits-that-are-not-ascii-and-their-unit", "٣minutes", "٣ min"),
        ("superscript-after-digits-that-are-not-ascii", "٣² cells", "٣^2 cells"),
        ("thousands-of-digits-that-are-not-ascii", "١٢,٠٠٠ rpm", "١٢٠٠٠ rpm"),
        ("numeric-characters-that-are-no-letters", "〇 ml", "ml"),
        ("equal-beginnings-of-eight-bytes", "supernatant1", "supernatant2"),
        ("equal-beginnings-and-ends", "abcdefgh1ijklmnop", "abcdefgh2ijklmnop"),
    ]:
        yield row(f"words/{name}", told([step("a", "b", given)]), [step("a", "b", wanted)])
        yield row(f"words/objects-{name}", told([step("a", given)]), [step("a", wanted)])
        yield row(f"words/action-{name}", told([step(given)]), [step(wanted)])
    for name, given, wanted in [("response", "--", ""), ("reference", "", "--|…"), ("both", "--", "…|_")]:
        steps = [step("a", "b", given)], [step("a", "b", wanted)]
        yield row(f"content/parameters-without-words-in-{name}", told(steps[0]), steps[1])
        steps = [step("a", given, "5 ml")], [step("a", wanted, "5 ml")]
        yield row(f"content/objects-without-words-in-{name}", told(steps[0]), steps[1])
    two = protocol("a b")
    for use, gap in itertools.product((True, False), repeat=2):
        config = {"use_position": use, "use_step_gap": gap}
        name = f"{'with' if use else 'without'}-position-{'with' if gap else 'without'}-step-gap"
        yield row(f"position/as-far-as-the-reference-is-long-{name}", told(protocol("x y z b")), two, **config)
        yield row(f"position/farther-than-the-reference-is-long-{name}", told(protocol("x y z u v b")), two, **config)
    carriage = "\r".join
    lines = [f"Step {i}: {json.dumps(one)}" for i, one in enumerate([*ONE_STEP, *ONE_STEP], 1)]
    prose = [ORC, ORC.replace("1", "2", 1)]
    yield row("lines/key-lines-end-at-a-carriage-return", answer(carriage(lines), TWO_ORC), [*ONE_STEP, *ONE_STEP])
    yield row("lines/prose-lines-end-at-a-carriage-return", answer(TWO_KEY, carriage(prose)), [*ONE_STEP, *ONE_STEP])
    yield row("lines/reference-lines-end-at-a-carriage-return", answer(TWO_KEY, TWO_ORC), carriage(lines))
    for name, between in {
        "no-break-space": "\u00a0",
        "em-space": "\u2003",
        "vertical-tab": "\v",
        "nothing": "",
    }.items():
        yield row(f"numbering/prose-{name}-before-the-number", answer(KEY, ORC.replace(" ", between, 1)))
        yield row(f"numbering/prose-{name}-before-the-colon", answer(KEY, ORC.replace(":", f"{between}:", 1)))
        yield row(f"numbering/key-{name}-before-the-number", answer(KEY.replace(" ", between, 1)))
        yield row(f"numbering/key-{name}-before-the-colon", answer(KEY.replace(":", f"{between}:", 1)))
    for name, value in {
        "array": "[1]",
        "text": '"add"',
        "number": "1",
        "null": "null",
        "object-in-an-array": "[{}]",
    }.items():
        yield row(f"json/{name}-in-place-of-a-step", answer(f"Step 1: {value}"))
        yield row(f"reference/{name}-in-place-of-a-step", answer(), f"Step 1: {value}")


def every_setting() -> Rows:
    """Yield an answer whose every component differs from its best, under each value of each setting."""
    reference = [
        step("harvest", "cell pellet", "5 min"),
        step("lyse", "lysis buffer|dnase", "10 µl"),
        step("spin", "lysate", "300 × g|4 °C"),
        step("wash", "beads"),
        step("quantify", "protein", "280 nm"),
    ]
    given = [
        step("harvest", "cell pellet|medium", "5 minutes"),
        step("stain", "lysate"),
        step("lyse", "cold lysis buffer", "20 µl"),
        step("spin", "lysate", "300 xg"),
        step("quantify", "protein", "280 nm|260 nm"),
        step("wash", "beads"),
    ]
    response = told(given, " so" * 30)
    values: dict[str, list[Any]] = {
        "order": ["strict", "lcs"],
        "semantics": ["sum", "product"],
        "total": ["product", "sum"],
        "content_denominator": ["matched", "max_len"],
        "length_penalty": ["absolute", "relative"],
        "reward_scale": ["unit", "raw", "double", "shift"],
        "min_coverage": [0.0, 0.95, 1.0],
        "max_mean_words": [1.0, 30.0, 33.25, 1e9],
        "object_similarity": ["fallback", "max"],
        "position_decay": [1e-9, 0.5, 1.0, 1.5, 2.0, 100.0],
        **{name: [True, False] for name in ("use_step_gap", "use_length", "use_position", "use_order")},
        "think_prefilled": [False, True],
        "advantage_ddof": [0, 1],
        "max_response_bytes": [len(response.encode()) - 1, len(response.encode())],
        "max_steps": [5, 6],
    }
    for name, every in values.items():
        for value in every:
            yield row(f"settings/{name.replace('_', '-')}-{value}", response, reference, **{name: value})
    table_21 = itertools.product(("strict", "lcs"), ("sum", "product"), ("product", "sum"))
    for order, semantics, total in table_21:
        for scale in ("unit", "raw", "double", "shift"):
            config = {"order": order, "semantics": semantics, "total": total, "reward_scale": scale}
            yield row(f"settings/{order}-{semantics}-{total}-{scale}", response, reference, **config)
    switches = ("use_step_gap", "use_length", "use_position", "use_order")
    for off in itertools.product((False, True), repeat=4):
        config = {name: not switched for name, switched in zip(switches, off, strict=True)}
        name = "-".join(name[4:].replace("_", "-") for name, switched in zip(switches, off, strict=True) if switched)
        yield row(f"settings/without-{name or 'nothing'}", response, reference, **config)


def drawn() -> Rows:
    for k in range(SEEDED):
        dice = Dice(f"default {k}")
        reference = seeded.protocol(dice)
        given = {"steps": reference} if dice.chance(0.5) else seeded.key_lines(reference)
        yield row(f"seeded/default-{k}", seeded.answer(dice, seeded.revised(dice, reference)), given)
    for k in range(SEEDED_SETTINGS):
        dice = Dice(f"settings {k}")
        reference = seeded.protocol(dice, 6)
        response = seeded.answer(dice, seeded.revised(dice, reference))
        yield row(f"seeded/settings-{k}", response, {"steps": reference}, **seeded.settings(dice))
    for k in range(SEEDED_DAMAGE):
        dice = Dice(f"damaged {k}")
        reference = seeded.protocol(dice, 4)
        response = seeded.damaged(dice, seeded.answer(dice, seeded.revised(dice, reference)))
        yield row(f"seeded/damaged-{k}", response, seeded.key_lines(reference), min_coverage=0.0)
    for k in range(SEEDED_POWERS):
        dice = Dice(f"powers {k}")
        reference = seeded.protocol(dice, 6)
        for one in reference:
            one["parameters"].extend(dice.some(POWERS, 1))
        given = seeded.revised(dice, reference)
        for one in given:
            one["parameters"].extend(dice.some(POWERS, 1))
        config = seeded.settings(dice) | {"object_similarity": dice.one(("fallback", "max"))}
        yield row(f"seeded/powers-{k}", seeded.answer(dice, given), {"steps": reference}, **config)
