"""Cases of docs/rules.md, Step scale to Score and reward, the paper's worked examples among them."""

from math import cos, pi

from .writing import Case, Steps, answer, case, step, told

R = ["harvest", "lyse", "centrifuge", "quantify"]


def protocol(actions: str | list[str]) -> Steps:
    return [step(action) for action in (actions.split() if isinstance(actions, str) else actions)]


REFERENCE = protocol(R)
SHORT, EXCHANGED, TWICE_EXCHANGED = (
    protocol("harvest lyse quantify"),
    protocol("harvest centrifuge lyse quantify"),
    protocol("lyse harvest quantify centrifuge"),
)
C2 = [
    case(f"C.2 {name} {mode}", told(steps), {"reason": "ok", "order": order}, REFERENCE, order=mode)
    for name, steps, strict, lcs in [
        ("a step left out", SHORT, 1.0, 3 / 4),
        ("two neighbours exchanged", EXCHANGED, 0.0, 3 / 4),
        ("two pairs exchanged", TWICE_EXCHANGED, 0.0, 2 / 4),
        ("a step added", protocol([*R, "stain"]), 1.0, 4 / 4),
        ("nothing shared", protocol("stain stain"), 0.0, 0 / 4),
    ]
    for mode, order in [("strict", strict), ("lcs", lcs)]
]
# W = {(1,1), (2,3), (5,4)}: |i - j| is 0, 1 and 1 of m = 4
C3 = [
    case(
        "C.3",
        told(protocol("harvest centrifuge lyse stain quantify")),
        {"anchors": 3, "order": 0.0, "content": 1.5 * (1 + 2 * (1 - 0.25**1.5)) / 3},
        REFERENCE,
    ),
    case(
        "C.3 over all steps",
        told(protocol("harvest centrifuge lyse stain quantify")),
        {"anchors": 3, "content": 1.5 * 3 / 5},
        REFERENCE,
        content_denominator="max_len",
        use_position=False,
    ),
]
# m, d, f: M is 1 below m = 4, 2 at 4, 3 at 5, 6 at 10, 9 at 15
EQ_3 = [
    *((m, 0, 1.0) for m in (1, 2, 3, 4, 5, 10, 15)),
    *((m, 1, 0.0) for m in (1, 2, 3)),
    (4, 1, cos(pi / 4)),
    (4, 2, 0.0),
    (5, 1, cos(pi / 6)),
    (5, 2, 0.5),
    (5, 3, 0.0),
    (10, 5, cos(5 * pi / 12)),
    (10, 6, 0.0),
    (15, 8, cos(8 * pi / 18)),
    (15, 9, 0.0),
]
GAPS = [
    case(
        f"eq. 3 m={m} n={n}",
        told(protocol(["add"] * n)),
        {"step_gap": f, "scale": f, "order": 1.0},
        protocol(["add"] * m),
    )
    for m, d, f in EQ_3
    for n in {m + d, m - d}
    if n > 0
]


def length(name: str, steps: str, filler: str, mean: float, scale: float, **settings: object) -> Case:
    """Return a case of right steps whose prose has further words."""
    expected = {"mean_words": mean, "scale": scale}
    return case(name, told(protocol(steps), filler), expected, protocol(steps), **settings)


LENGTHS = [
    length("30 words", "add", " so" * 29, 30.0, 1.0),
    length("31 words as printed", "add", " so" * 30, 31.0, 1 / 31),
    length("31 words relative", "add", " so" * 30, 31.0, 30 / 31, length_penalty="relative"),
    length("31 words switched off", "add", " so" * 30, 31.0, 1.0, use_length=False),
    length("another bar", "add", " so" * 3, 4.0, 1 / 4, max_mean_words=3.5),
    length("mean over steps", "add mix", " so", 2.0, 1.0),
    length("pieces as str.split cuts them", "add", "\x1ca\x1fb\x85c\xa0d\u2028e\u3000f\u200bg", 7.0, 1.0),
]


def pair(name: str, predicted: dict, wanted: dict, content: float, **settings: object) -> Case:
    """Return a case of one step against one step: content is Obj + ½ Par."""
    return case(name, told([predicted]), {"reason": "ok", "anchors": 1, "content": content}, [wanted], **settings)


CONTENT = [
    pair("nothing on either side", step("add"), step("add"), 1.5),
    pair("objects on one side", step("add", "pbs"), step("add"), 0.0),
    pair("parameters on one side", step("add", "pbs", "5 min"), step("add", "pbs"), 1.0),
    pair(
        "objects in another order", step("add", "pbs|dna", "5 min|4 °C"), step("add", "dna|pbs", "4 ℃|5 minutes"), 1.5
    ),
    pair("objects as sets", step("add", "pbs|pbs"), step("add", "pbs"), 1.5),
    pair("half of the objects", step("add", "pbs|dna", "5 min"), step("add", "pbs", "5 h"), 0.5 + 0.5 / 3),
    pair("less than half", step("add", "pbs|dna|rna", "5 min"), step("add", "pbs", "5 min"), 1 / 3),
    pair("words instead of objects", step("add", "cold pbs"), step("add", "pbs"), 0.5 + 0.5),
    pair("too few words", step("add", "cold clear pbs"), step("add", "pbs"), 1 / 3),
    pair("words only where nothing is whole", step("add", "cold pbs|dna"), step("add", "warm pbs|dna|rna"), 1 / 4),
    pair("elements are not joined", step("add", "5|min"), step("add", "5 min"), 1.0 + 0.5),
    pair("elements against words", step("add", "300|x|g"), step("add", "300 x g"), 1 / 4),
    pair("actions by words", step("ＳＰＩＮ  down"), step("spin down"), 1.5),
]


def late(name: str, actions: str, content: float, **settings: object) -> Case:
    """Return a case of one anchor, whose reference has two steps and begins with it."""
    expected = {"anchors": 1, "content": content}
    return case(name, told(protocol(actions)), expected, protocol("add wash"), **settings)


POSITION = [
    late("late by one of two", "mix add", 1.5 * (1 - 0.5**1.5)),
    late("decay", "mix add", 1.5 * (1 - 0.5**3), position_decay=3.0),
    late("steep decay", "a b add", 0.0, position_decay=1e308),
    late("position switched off", "mix add", 1.5, use_position=False),
    late("as late as the reference is long", "a b add", 0.0),
    late("later than the reference is long", "a b c add", 0.0),
]
# one of five steps too many: f = cos(π/6); strict order 1; content 1.5
LONGER = told(protocol("a b c e f i"))
FIVE = protocol("a b c e f")
F = cos(pi / 6)
TOTALS = [
    case(
        f"{semantics} {total} {scale}",
        LONGER,
        {"score": score, "reward": reward},
        FIVE,
        semantics=semantics,
        total=total,
        reward_scale=scale,
    )
    for semantics, total, score, S in [
        ("sum", "product", F * 2.5, 2.5),
        ("product", "product", F * 1.5, 1.5),
        ("sum", "sum", F + 2.5, 3.5),
        ("product", "sum", F + 1.5, 2.5),
    ]
    for scale, reward in [("unit", score / S), ("raw", score), ("double", 2 * score), ("shift", score - S / 2)]
] + [
    case(
        "without order",
        told(EXCHANGED),
        {"order": 0.0, "semantics": 1.5 * 0.75, "reward": 0.75},
        REFERENCE,
        use_order=False,
        use_position=False,
        content_denominator="max_len",
    ),
    case(
        "without order a product is no product",
        LONGER,
        {"semantics": 1.5, "reward": F},
        FIVE,
        use_order=False,
        semantics="product",
    ),
    case("without step gap", LONGER, {"step_gap": F, "scale": 1.0, "reward": 1.0}, FIVE, use_step_gap=False),
    case(
        "order times content",
        told(SHORT),
        {"order": 0.75, "semantics": 0.75 * 1.5 * (2 + 1 - 0.25**1.5) / 3},
        REFERENCE,
        order="lcs",
        semantics="product",
    ),
    case("closed gate in shift", "", {"score": 0.0, "reward": -1.25}, FIVE, reward_scale="shift"),
    case("closed gate in shift of a sum", "", {"score": 0.0, "reward": -1.75}, FIVE, reward_scale="shift", total="sum"),
]
LINES = "\n".join(f'Step 9: {{"action": "{a}", "objects": [], "parameters": []}}' for a in R)
REFERENCES = [
    case("reference as key lines", told(REFERENCE), {"score": 2.5}, LINES),
    case("reference as an answer", told(REFERENCE), {"score": 2.5}, answer(LINES, "no prose")),
    case("reference never prefilled", told(REFERENCE), {"score": 2.5}, "\r\r\n" + LINES, think_prefilled=True),
]
REWARDS = [*C2, *C3, *GAPS, *LENGTHS, *CONTENT, *POSITION, *TOTALS, *REFERENCES]
