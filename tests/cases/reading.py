"""Valid and invalid texts (docs/rules.md, Reading a response, Gates and Reasons)."""

from .writing import KEY, ORC, answer, case

STEP = '{"action": "add", "objects": ["pbs"], "parameters": ["5 min"]}'
TWO_KEY, TWO_ORC = f"{KEY}\n{KEY.replace('1', '2', 1)}", f"{ORC}\n{ORC.replace('1', '2', 1)}"
FULL = {"reason": "ok", "score": 2.5, "reward": 1.0, "coverage": 1.0, "format": 1, "consistency": 1}
CLOSED = {"consistency": 0, "score": 0.0, "reward": 0.0, "mean_words": 0.0, "order": 0.0, "anchors": 0}

SECTIONS = [
    case("plain", answer(), FULL),
    case("nothing", "", "missing_sections"),
    case("tags in any case", answer().replace("<key>", "<KEY>").replace("</think>", "</Think>"), FULL),
    case("Kelvin sign is no k", answer().replace("<key>", "<\u212aey>"), "missing_sections"),
    case("white space between sections", answer().replace(">\n<", "> \t\x0b\x0c\r\n<"), FULL),
    case("no-break space between sections", answer().replace("</key>\n", "</key>\xa0"), "missing_sections"),
    case("next line between sections", answer().replace("</think>\n", "</think>\x85"), "missing_sections"),
    case("text between sections", answer().replace("</orc>\n", "</orc>, "), "missing_sections"),
    case("text around", "Sure <note> </think>" + answer() + "<|im_end|><think>", FULL),
    case("tags in think", answer(think="<think><key></key> </think> <orc>"), FULL),
    case("earliest end of key", answer(key=f"{KEY}\n</key>\n<orc>\n{ORC}\n</orc>"), "orc_numbering"),
    case("later end of key", answer(key=f"{KEY}\n</key> so\n"), "bad_step_line"),
    case("note not closed", answer().removesuffix("</note>"), "missing_sections"),
    case(
        "sections out of order",
        answer().replace("key>", "@>").replace("orc>", "key>").replace("@>", "orc>"),
        "missing_sections",
    ),
    case("think not opened", answer().removeprefix("<think>"), {"reason": "think_not_opened", **CLOSED, "format": 0}),
    case("think prefilled", answer().removeprefix("<think>"), FULL, think_prefilled=True),
    case("think prefilled and written", answer(), FULL, think_prefilled=True),
    case("prefilled without sections", "no sections", "missing_sections", think_prefilled=True),
]
LINES = [
    case("carriage returns and new lines", answer(f"\r\n{KEY}\r\r\n", f"{ORC}\r\n"), FULL),
    case("white lines", answer(f"\x0b\n\x0c\t \n  {KEY}\t\n \x0c"), FULL),
    case("next line is no line end", answer(TWO_KEY.replace("\n", "\x85"), TWO_ORC), "bad_step_json"),
    case("line separator is no line end", answer(TWO_KEY.replace("\n", "\u2028"), TWO_ORC), "bad_step_json"),
    case("line of a file separator", answer(f"\x1c\n{KEY}"), "bad_step_line"),
    case("no-break space at the end", answer(KEY + "\xa0"), "bad_step_line"),
    case("loose spelling", answer(f"sTEP \t 01\t:{STEP}", "STEP\t1 :" + ORC[7:]), FULL),
    case("no space before the number", answer("Step1: " + STEP), "bad_step_line"),
    case("no number", answer("Step : " + STEP), "bad_step_line"),
    case("long s", answer("ſtep 1: " + STEP), "bad_step_line"),
    case("other digits", answer("Step ١: " + STEP), "bad_step_line"),
    case("no-break space after the colon", answer("Step 1:\xa0" + STEP), "bad_step_line"),
    case("comma at the end", answer(KEY + ","), "bad_step_line"),
    case("something before", answer("- " + KEY), "bad_step_line"),
    case("step over two lines", answer(KEY.replace("],", "],\n")), "bad_step_line"),
    case("no key lines", answer(" \n\x0b", ORC), {"reason": "no_steps", **CLOSED, "format": 0}),
    case("first bad line decides", answer(f"{KEY}\nStep 2: {{}}\nStep 2"), "bad_step_schema"),
    case("first bad line is the second", answer(f"{KEY}\nStep 2: {{,}}\nStep 2: {{}}"), "bad_step_json"),
    case("a bad line comes before numbering", answer(f"{KEY}\n{KEY}\nStep"), "bad_step_line"),
]


def with_name(name: str, value: str) -> str:
    """Return the step with a pair inserted first; if the name occurs again, the later one wins."""
    return answer(f"Step 1: {{{name}: {value}, {STEP[1:]}")


# fmt: off
VALID_VALUES = [
    "null", "-0", "1e999", "9" * 5000, "1.5E+3", r'"\ud83d\ude00\/\b"', '"\x7f\u2028"', "[" * 99 + "]" * 99,
    ' {"a" :\t[ ]} ',
]
INVALID_VALUES = [
    "NaN", "-Infinity", "01", "1.", ".5", "+1", "'a'", "[1,]", '"\t"', '"\x1f"', r'"\x41"', r'"\u12g4"', "\x0b1", "１",
    "\xa01", r'"\ud83d"', r'"\ude00\ud83d"', r'"\ud83d\ud83d\ude00"', r'"\ud83dx"', r'{"\udfff": 1}',
    "[" * 100 + "]" * 100, "[" * 50000,
]
# fmt: on
SCHEMA = {
    "name missing": STEP.replace('"objects": ["pbs"], ', ""),
    "name added": STEP[:-1] + ', "note": ""}',
    "name in capitals": STEP.replace("action", "Action"),
    "action is a number": STEP.replace('"add"', "5"),
    "action is null": STEP.replace('"add"', "null"),
    "action is empty": STEP.replace("add", ""),
    "action without a word": STEP.replace("add", "… –"),
    "objects are a string": STEP.replace('["pbs"]', '"pbs"'),
    "objects are null": STEP.replace('["pbs"]', "null"),
    "object is a number": STEP.replace('["pbs"]', '["pbs", 5]'),
    "parameter is an array": STEP.replace('["5 min"]', '[["5 min"]]'),
    "the last of two names is bad": STEP[:-1] + ', "action": 1}',
    "empty object": "{}",
}
JSON = [
    *(
        case(f"valid value {value[:20]!r} of {len(value)}", with_name('"objects"', value), FULL)
        for value in VALID_VALUES
    ),
    *(
        case(f"invalid value {value[:20]!r} of {len(value)}", with_name('"objects"', value), "bad_step_json")
        for value in INVALID_VALUES
    ),
    *(
        case(name, answer(f"Step 1: {text}"), {"reason": "bad_step_schema", **CLOSED, "format": 0})
        for name, text in SCHEMA.items()
    ),
    case("escaped name", with_name('"\\u006fbjects"', "5"), FULL),
    case("escaped text", answer(KEY.replace("add", "\\u0061\\u0064d").replace("5 min", "5\\u0020\\t\\u006Din")), FULL),
    case("lone surrogate in a name", with_name('"\\ud800"', "1"), "bad_step_json"),
    case("surrogate in the text itself", answer(KEY, ORC + "\ud83d"), FULL),
    case("surrogate put in its place", answer(KEY.replace("pbs", "pbs \udfff"), ORC), FULL),
    case("two objects", answer(KEY + " {}"), "bad_step_json"),
    case("single quotes", answer(KEY.replace('"', "'")), "bad_step_json"),
    case("comma before the brace", answer(KEY[:-1] + ",}"), "bad_step_json"),
    case(
        "white space of JSON",
        answer(KEY.replace(" ", "\t").replace("Step\t1:", "Step 1:").replace("5\tmin", "5 min")),
        FULL,
    ),
    case("form feed is none", answer(KEY.replace('{"', '{\x0c"')), "bad_step_json"),
    case("elements without words", answer(KEY.replace('"pbs"', '"pbs", "", "–"')), FULL),
]
GATES = [
    case("numbers from 0", answer(KEY.replace("1", "0", 1)), {"reason": "key_numbering", **CLOSED, "format": 1}),
    case("numbers exchanged", answer(f"{KEY.replace('1', '2', 1)}\n{KEY}", TWO_ORC), "key_numbering"),
    case("number twice", answer(f"{KEY}\n{KEY}", TWO_ORC), "key_numbering"),
    case("number of 5,000 digits", answer(KEY.replace("1", "1" * 5000, 1)), "key_numbering"),
    case("leading zeros", answer(KEY.replace("1", "0" * 5000 + "1", 1), ORC.replace("1", "001", 1)), FULL),
    case("orc numbers", answer(TWO_KEY, f"{ORC}\n{ORC}"), {"reason": "orc_numbering", **CLOSED, "format": 1}),
    case("orc number of 5,000 digits", answer(KEY, ORC.replace("1", "1" * 5000, 1)), "orc_numbering"),
    case(
        "key numbers come before orc numbers",
        answer(KEY.replace("1", "2", 1), ORC.replace("1", "2", 1)),
        "key_numbering",
    ),
    case("orc numbers come before the count", answer(KEY, f"{ORC}\n{ORC}"), "orc_numbering"),
    case(
        "more prose than steps", answer(KEY, TWO_ORC), {"reason": "step_count", **CLOSED, "format": 1, "coverage": 0.0}
    ),
    case("no prose", answer(KEY, "Add the PBS."), "step_count"),
    case("count comes before coverage", answer(TWO_KEY, "Step 1: Rest."), "step_count"),
    case("prose before the first step", answer(KEY, f"As planned.\n{ORC}"), FULL | {"mean_words": 6.0}),
    case("prose over lines", answer(KEY, "Step 1:\n\nAdd the\r\n  PBS\rfor 5\n minutes."), FULL | {"mean_words": 6.0}),
    case("a quantity over lines", answer(KEY, "Step 1: Add PBS, 5\nmin"), FULL),
    case("a step without colon continues", answer(KEY, f"{ORC}\nStep 2 is to wait"), FULL | {"mean_words": 11.0}),
    case("words as substrings", answer(KEY, "Step 1: Readding the xPBSx, 15 minced"), FULL),
    case("comparison by canonical words", answer(KEY, "Step 1: ＡＤＤ Pbs 5minutes"), FULL),
    case(
        "a word is wanted once",
        answer(KEY.replace('"pbs"', '"pbs", "pbs pbs", "add"')),
        {"reason": "ok", "coverage": 1.0},
    ),
    case(
        "coverage is reported",
        answer(KEY, "Step 1: Add the PBS."),
        {"reason": "low_coverage", **CLOSED, "coverage": 0.5, "format": 1},
    ),
    case(
        "worst step counts",
        answer(TWO_KEY, f"{ORC}\nStep 2: PBS for 5 minutes"),
        {"reason": "low_coverage", "coverage": 0.75},
    ),
    case("lower bar", answer(KEY, "Step 1: Add the PBS."), {"reason": "ok", "coverage": 0.5}, min_coverage=0.5),
    case(
        "no bar",
        answer(KEY, "Step 1:"),
        {"reason": "ok", "coverage": 0.0, "mean_words": 0.0, "scale": 1.0},
        min_coverage=0.0,
    ),
    case(
        "words are not joined",
        answer(KEY.replace("5 min", '5", "min'), "Step 1: Add PBS 5. So min"),
        FULL | {"content": 1.5},
    ),
]
LIMITS = [
    case("bytes at the limit", answer(), FULL, max_response_bytes=len(answer())),
    case("bytes over the limit", answer() + "µ", "too_long", max_response_bytes=len(answer()) + 1),
    case("too long comes first", "x" * 262145, "too_long"),
    case("as long as allowed", "x" * 262144, "missing_sections"),
    case("steps at the limit", answer(TWO_KEY, TWO_ORC), "ok", max_steps=2),
    case("key lines over the limit", answer(TWO_KEY, ORC), "too_long", max_steps=1),
    case("bad key lines count", answer(f"{KEY}\nx", ORC), "too_long", max_steps=1),
    case("orc steps over the limit", answer(KEY, TWO_ORC), "too_long", max_steps=1),
    case("too long comes before no steps", answer("", TWO_ORC), "too_long", max_steps=1),
    case("continuations do not count", answer(KEY, f"{ORC}\nand\nso\non"), "ok", max_steps=1),
]
READING = [*SECTIONS, *LINES, *JSON, *GATES, *LIMITS]

BAD_REFERENCES = [
    ("nothing", "", "no_steps"),
    ("white lines", " \n\x0b\r", "no_steps"),
    ("no step given", {"steps": []}, "no_steps"),
    ("empty key", answer(""), "no_steps"),
    ("prose", "Add the PBS.", "bad_step_line"),
    ("think not opened", answer().removeprefix("<think>"), "bad_step_line"),
    ("second line", f"{KEY}\nStep 2: {{]}}", "bad_step_json"),
    ("schema of a line", "Step 1: {}", "bad_step_schema"),
    (
        "schema of a step",
        {"steps": [{"action": "add", "objects": [], "parameters": []}, {"action": "add"}]},
        "bad_step_schema",
    ),
    ("step is no object", {"steps": ["add"]}, "bad_step_schema"),
    ("action without words", {"steps": [{"action": "…", "objects": [], "parameters": []}]}, "bad_step_schema"),
    ("too many lines", "\n".join([KEY] * 1025), "too_long"),
    ("too many bytes", KEY.replace("pbs", "p" * 262144), "too_long"),
]
"""name, reference, reason."""
