"""Status codes of responses and references (docs/rules.md, Reasons); kernels write one for each row and never raise."""

REASONS = (
    "ok",
    "too_long",
    "think_not_opened",
    "missing_sections",
    "no_steps",
    "bad_step_line",
    "bad_step_json",
    "bad_step_schema",
    "key_numbering",
    "orc_numbering",
    "step_count",
    "low_coverage",
)

OK = 0
TOO_LONG = 1
THINK_NOT_OPENED = 2
MISSING_SECTIONS = 3
NO_STEPS = 4
BAD_STEP_LINE = 5
BAD_STEP_JSON = 6
BAD_STEP_SCHEMA = 7
KEY_NUMBERING = 8
ORC_NUMBERING = 9
STEP_COUNT = 10
LOW_COVERAGE = 11
