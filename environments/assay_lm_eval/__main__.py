"""Print the folder of the tasks, for `lm_eval --include_path "$(python -m assay_lm_eval)"`."""

from pathlib import Path

print(Path(__file__).with_name("tasks"))
