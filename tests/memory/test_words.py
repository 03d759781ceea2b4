"""The words of imports are read again when a file has changed, and never remembered of text that is not saved."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ampcheck import words
from ampcheck.source import Unreadable, unsaved
from ampcheck.words import KeptWords, Words


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("from parts import clip\nclass Loop(Base):\n    pass\n")
    return path


def test_the_words_of_imports_and_bases(file: Path) -> None:
    found = Words().of(str(file))
    assert found.imports == {b"from", b"parts", b"import", b"clip"}
    assert found.bases == {b"Base"}


def test_a_file_is_read_once_until_it_changes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(path: str) -> bytes:
        read.append(path)
        return Path(path).read_bytes()

    monkeypatch.setattr(words, "read_bytes", counted)
    kept = KeptWords()
    assert kept.of(str(file)) == kept.of(str(file)) == Words().of(str(file))
    assert len(read) == 2  # the last one by somebody who remembers nothing
    status = os.stat(file)
    file.write_text("from parts import step\nclass Loop(Base):\n    pass\n")
    assert os.stat(file).st_size == status.st_size
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert b"step" in kept.of(str(file)).imports


def test_unsaved_text_is_not_remembered(file: Path) -> None:
    kept = KeptWords()
    with unsaved({str(file): b"import one\n"}):
        assert b"one" in kept.of(str(file)).imports
    with unsaved({str(file): b"import two\n"}):
        assert b"two" in kept.of(str(file)).imports
    assert b"clip" in kept.of(str(file)).imports


def test_a_file_that_is_gone_is_not_remembered(file: Path) -> None:
    kept = KeptWords()
    kept.of(str(file))
    file.unlink()
    with pytest.raises(Unreadable):
        kept.of(str(file))
