"""Word lists of the tests of metrics: the machine's are out of sight, so that a result depends on none of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from assay.service.tasks.text import meteor
from tests.evaluate.word_lists import NLTK_FOLDER, SENTENCES, forget_wordnet, write_wordnet


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("word_lists") and not SENTENCES:
        pytest.skip("NLTK's punkt_tab is not in this environment: make word-lists")


@pytest.fixture(autouse=True)
def no_wordnet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide every WordNet of this machine."""
    monkeypatch.setattr(meteor, "FOLDERS", ())
    with suppress(ImportError):  # without the extra `lexical` there is no NLTK
        monkeypatch.setattr("nltk.data.path", [str(NLTK_FOLDER)])


@pytest.fixture
def small_wordnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let NLTK find a WordNet of three meanings, and no other."""
    data = pytest.importorskip("nltk.data")
    folder = write_wordnet(tmp_path / "corpora" / "wordnet")
    monkeypatch.setattr(data, "path", [str(tmp_path), str(NLTK_FOLDER)])
    forget_wordnet()
    yield folder
    forget_wordnet()
