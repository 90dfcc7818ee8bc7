"""Texts and their canonical words (docs/rules.md, Words), each with a name."""

UNIT_TABLE = {
    "s": "s sec secs second seconds",
    "min": "min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "nl": "nl nL nanoliter nanoliters nanolitre nanolitres",
    "μl": "μl µL ul uL microliter microliters microlitre microlitres",
    "ml": "ml mL milliliter milliliters millilitre millilitres ㎖",
    "l": "l L liter liters litre litres",
    "ng": "ng nanogram nanograms",
    "μg": "μg µg ug microgram micrograms",
    "mg": "mg milligram milligrams",
    "g": "g gram grams",
    "kg": "kg kilogram kilograms",
    "nm": "nm nanometer nanometers nanometre nanometres",
    "μm": "μm µm um micron microns micrometer micrometers micrometre micrometres",
    "mm": "mm millimeter millimeters millimetre millimetres",
    "cm": "cm centimeter centimeters centimetre centimetres",
    "c": "c C celsius Celsius",
    "rpm": "rpm RPM",
    "xg": "xg ×g Xg",
    "v": "v V volt volts",
    "%": "% percent ％",
}
UNITS = [
    (f"unit {name}", text, ["7", unit])
    for unit, names in UNIT_TABLE.items()
    for name in names.split()
    for text in (f"7 {name}", f"7{name}", f"7 ({name})")
]

LOOK_ALIKES = [
    ("ordinal indicator is a degree", "37ºC 37˚C 37°C", ["37", "c"] * 3),
    ("degree sign parts words", "a°b", ["a", "b"]),
    ("minus signs", "−80 –80 —80 ﹣80 －80 ‐80 ‑80 ‒80 ―80", ["-80"] * 9),
    ("small em dash", "3﹘5", ["3-5"]),
    ("other dashes part words", "a⁃b a\u00adb", ["a", "b", "a", "b"]),
    ("subscripts", "CO₂ 10₃", ["co2", "103"]),
    ("fraction", "¼", ["1", "4"]),
    ("fullwidth", "Ａｂ１，０００", ["ab1000"]),
    ("micro is mu", "µ Μ", ["μ", "μ"]),
    ("folding after normalisation", "ẞ ŉ ﬆ ĲK", ["ss", "ʼn", "st", "ijk"]),
    ("composition", "e\u0301 n\u0303", ["é", "ñ"]),
    ("marks are no letters", "x\u0301y", ["x", "y"]),
    ("Jamo compose", "\u1100\u1161\u11a8", ["각"]),
    ("Arabic ligature", "\ufdfa", ["صلى", "الله", "عليه", "وسلم"]),
    ("other alphabets", "ДНК 离心 ٣ ½", ["днк", "离心", "٣", "1", "2"]),
    ("numbers that are no digits", "Ⅷ ㊿ 五", ["viii", "50", "五"]),
    ("assigned after 14.0", "a\u1c89b a\U0001e030b c\U00010efd", ["a", "b", "a", "b", "c"]),
    ("a mark of later versions parts", "e\U00010efd\u0301", ["e"]),
    ("dotted capital I", "İ", ["i"]),
]
POWERS = [
    ("power of ten", "10⁶ 2×10⁻³ 10⁺⁹", ["10", "6", "2x10", "-3", "10", "9"]),
    ("every superscript digit", "1⁰1¹1²1³1⁴1⁵1⁶1⁷1⁸1⁹", ["1", *(f"{k}1" for k in range(9)), "9"]),
    ("a run of superscripts", "2²³ 5⁻¹⁰ 5⁺⁻¹", ["2", "23", "5", "-10", "5", "-1"]),
    ("sign alone", "5⁺ 1.5⁻ 3", ["5", "1.5", "3"]),
    ("after a letter", "m² x⁻¹ Ca²⁺", ["m2", "x-1", "ca2"]),
    ("after other digits", "٣² １０⁶ 5₂²", ["٣2", "106", "522"]),
    ("after a space", "10 ⁶", ["10", "6"]),
    ("other superscripts", "5ⁿ 5ⁱ 5⁽²⁾ 5⁼", ["5n", "5i", "5", "2", "5"]),
    ("before a mark", "5²\u0301 5\u0301²", ["5", "2", "5", "2"]),
    ("before units", "10⁶ ml 10²ml 3⁰C", ["10", "6", "ml", "10", "2", "ml", "3", "0", "c"]),
    ("power after thousands", "12,000² 1,000⁰", ["12000", "2", "1000", "0"]),
    ("ranges of powers", "10⁴–10⁵", ["10", "4-10", "5"]),
    ("beyond one vector", "more than thirty-two bytes: 2×10⁶", ["more", "than", "thirty-two", "bytes", "2x10", "6"]),
]
COMMAS = [
    ("thousands", "1,000 12,345,678", ["1000", "12345678"]),
    ("two or four digits", "1,00 1,0000 1,2345", ["1", "00", "1", "0000", "1", "2345"]),
    ("comma after a letter", "a,000 x1,000", ["a", "000", "x1000"]),
    ("a letter among three", "1,a23 1,2b3 1,23y 1,.23", ["1", "a23", "1", "2b3", "1", "23y", "1", "23"]),
    ("comma and space", "1, 000", ["1", "000"]),
    ("other digits", "١,٠٠٠ 1,٠٠٠", ["١", "٠٠٠", "1", "٠٠٠"]),
    ("decimal behind", "1,000.5 1,000,5", ["1000.5", "1000", "5"]),
]
RUNS = [
    ("trailing punctuation", "a. b- c_ d-._", ["a", "b", "c", "d"]),
    ("leading punctuation", ".a _b -c -._d", ["a", "b", "c", "d"]),
    ("sign of a number", "-80 --80 .-80 -.80 _-8", ["-80", "-80", "-80", "80", "-8"]),
    ("sign before another digit", "-٥", ["٥"]),
    ("inner punctuation", "a-b a.b a_b a%b", ["a-b", "a.b", "a_b", "a%b"]),
    ("percent stays", "% %a %.", ["%", "%a", "%"]),
    ("nothing", "- . _ -._ … +", []),
]
NUMBERS = [
    ("number forms", "5 0.5 1.2.3 3-5 0.1-0.5 -3--5", ["5", "0.5", "1.2.3", "3-5", "0.1-0.5", "-3--5"]),
    ("two ranges", "1-2-3min", ["1-2-3min"]),
    ("range with unit", "10-15mL 10–15 mL", ["10-15", "ml", "10-15", "ml"]),
    ("unit alone", "min second g", ["min", "second", "g"]),
    ("unit name after a word", "five minutes", ["five", "minutes"]),
    ("unit after a whole quantity", "5min seconds", ["5", "min", "seconds"]),
    ("unit after a unit", "5 min seconds", ["5", "min", "seconds"]),
    ("number after number", "5 5 minutes", ["5", "5", "min"]),
    ("separators do not matter", "5 (minutes) 5/minutes", ["5", "min", "5", "min"]),
    ("dropped runs do not matter", "5 - … minutes", ["5", "min"]),
    ("rest must be a unit", "5minx 5x 5e3 5-min", ["5minx", "5x", "5e3", "5-min"]),
    ("x then g", "300 x g 300 × g 300 x-g", ["300", "xg", "300", "xg", "300", "x-g"]),
    ("x without g", "300 x h 5 x 3", ["300", "x", "h", "5", "x", "3"]),
    ("x then g after a unit", "5 min x g", ["5", "min", "x", "g"]),
    ("x then g without a number", "x g", ["x", "g"]),
    ("x then grams", "300 x grams", ["300", "x", "grams"]),
    ("g after xg", "300 x g g", ["300", "xg", "g"]),
    ("x at the end", "300 x", ["300", "x"]),
    ("units keep other case out", "5 M 5 S", ["5", "m", "5", "s"]),
    ("other digits are no numbers", "٥ min", ["٥", "min"]),
]
WORDS = [*UNITS, *LOOK_ALIKES, *POWERS, *COMMAS, *RUNS, *NUMBERS]
"""name, text, words."""
