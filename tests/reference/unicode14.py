"""Unicode 14.0, whatever the version of the running Python (docs/rules.md, Words).

Between 14.0 and later versions no assigned character changes its normal form, case folding or alphanumeric
property (Unicode's stability policies); only code points that 14.0 does not assign gain properties. Those must
stay as they are and belong to no word. U+FFFD behaves exactly so: it normalises and folds to itself, composes
with nothing, and is neither alphanumeric nor white space. So it replaces them, and Python does the rest.
"""

import re
from pathlib import Path
from unicodedata import unidata_version


def unassigned_pattern() -> re.Pattern[str]:
    """One character that Unicode 14.0 does not assign."""
    listed = (Path(__file__).parent / "unassigned_14.txt").read_text(encoding="ascii").splitlines()
    ranges = [part.split("-") for line in listed if not line.startswith("#") for part in line.split()]
    return re.compile("[" + "".join(f"\\U{ends[0]:0>8}-\\U{ends[-1]:0>8}" for ends in ranges) + "]")


UNASSIGNED = unassigned_pattern()


def as_unicode14(text: str) -> str:
    """Replace every character that Unicode 14.0 does not assign by U+FFFD."""
    return text if unidata_version == "14.0.0" else UNASSIGNED.sub("\ufffd", text)
