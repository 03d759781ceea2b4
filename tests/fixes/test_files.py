"""A fix touches its lines and nothing else of a file: not its encoding, mark, line ends, mode or link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ampcheck.check import check_paths
from ampcheck.cli import main
from ampcheck.fixes.applying import apply
from ampcheck.fixes.files import replace_file
from tests.fixes.loops import CLIPPED

NEW = "        scaler.unscale_(optimizer)"


def fixed(file: Path, data: bytes) -> bytes:
    """The contents that a file with AMP101 would get."""
    file.write_bytes(data)
    findings = [f for f in check_paths([str(file)]).findings if f.code == "AMP101"]
    assert findings
    done = apply(findings, [str(file)], unsafe=True)
    (new,) = done.contents.values()
    assert file.read_bytes() == data
    return new


def with_new_line(data: bytes, end: bytes = b"\n") -> bytes:
    """What is expected: one line more before the clip."""
    line = next(line for line in data.splitlines(keepends=True) if b"clip_grad_norm_" in line)
    return data.replace(line, NEW.encode() + end + line)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends(end: str, tmp_path: Path) -> None:
    data = CLIPPED.replace("\n", end).encode()
    expected = data.replace(b"        torch.nn", NEW.encode() + end.encode() + b"        torch.nn")
    assert fixed(tmp_path / "train.py", data) == expected


def test_a_byte_order_mark(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + CLIPPED.encode()
    assert fixed(tmp_path / "train.py", data) == with_new_line(data)


def test_another_encoding(tmp_path: Path) -> None:
    data = ("# coding: latin-1\n# für alle Fälle\n" + CLIPPED).encode("latin-1")
    assert fixed(tmp_path / "train.py", data) == with_new_line(data)


def test_columns_count_characters(tmp_path: Path) -> None:
    text = CLIPPED.replace("for x, y", "ß = 'ä😀'; z = 1\n    for x, y").replace(
        "import torch\n", "import torch\n\f\n"
    )
    data = text.encode()
    assert fixed(tmp_path / "train.py", data) == with_new_line(data)


def test_no_end_of_the_last_line(tmp_path: Path) -> None:
    data = CLIPPED.rstrip("\n").encode()
    assert fixed(tmp_path / "train.py", data) == with_new_line(data)


def test_a_line_after_the_last_one(tmp_path: Path) -> None:
    """AMP112 puts an update behind the last line, which has no end."""
    file = tmp_path / "train.py"
    data = CLIPPED.replace("        torch.nn", "        scaler.unscale_(optimizer)\n        torch.nn")
    data = data.replace("\n        scaler.update()\n", "")
    file.write_bytes(data.encode())
    findings = [f for f in check_paths([str(file)]).findings if f.code == "AMP112"]
    (new,) = apply(findings, [str(file)], unsafe=True).contents.values()
    assert new.decode() == data + "\n        scaler.update()"


def test_tabs(tmp_path: Path) -> None:
    data = CLIPPED.replace("    ", "\t").encode()
    assert fixed(tmp_path / "train.py", data) == with_new_line(data).replace(
        NEW.encode(), b"\t\tscaler.unscale_(optimizer)"
    )


def test_the_mode_stays_and_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.py", tmp_path / "train.py"
    real.write_bytes(b"old")
    real.chmod(0o755)
    link.symlink_to(real)
    replace_file(str(link), b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o755


def test_a_file_that_cannot_be_replaced_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.py"
    file.write_text(CLIPPED)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    assert main(["check", "--fix", "--unsafe-fixes", str(file)]) == 2
    assert f"{file}: cannot be written: Permission denied" in capsys.readouterr().err
    assert file.read_text() == CLIPPED
    assert list(tmp_path.iterdir()) == [file]
