"""Commands that install the packages of an extra."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from assay.service.wording import in_this_shell, install_command


def test_the_command_runs_pip_of_this_interpreter_with_the_extras_packages(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("", str(Path(sys.executable).parent)):
        monkeypatch.setenv("PATH", path)
        python, *arguments = shlex.split(in_this_shell(install_command("lexical")))
        assert python == ("python" if path else sys.executable)
        assert arguments[:3] == ["-m", "pip", "install"]
        assert [name.partition("<")[0].partition(">")[0] for name in arguments[3:]] == ["nltk", "sacrebleu"]


def test_a_path_below_the_working_directory_is_relative(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(Path(sys.executable).parents[1])
    assert shlex.split(in_this_shell(install_command("zstd")))[0] == str(Path("bin") / Path(sys.executable).name)
