"""From bytes to text: what Python accepts is read as Python reads it, the rest is refused in one clear line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ampcheck import source
from ampcheck.check import check_paths
from ampcheck.source import Unreadable, decode, passes_gate, read_bytes, unsaved

CODE = "x = 'é'\nloss.backward()\n"


@pytest.mark.parametrize(
    "data",
    [
        CODE.encode(),
        b"\xef\xbb\xbf" + CODE.encode(),
        CODE.replace("\n", "\r\n").encode(),
        CODE.replace("\n", "\r").encode(),
        b"\xef\xbb\xbf" + CODE.replace("\n", "\r\n").encode(),
    ],
    ids=["plain", "byte order mark", "CRLF", "CR", "mark and CRLF"],
)
def test_the_text_is_the_same_however_it_is_stored(data: bytes) -> None:
    read = decode("train.py", data)
    assert read.text == CODE
    assert read.lines == ("x = 'é'", "loss.backward()", "")
    assert read.tree is not None


@pytest.mark.parametrize(
    ("cookie", "encoding"),
    [
        ("# -*- coding: latin-1 -*-", "latin-1"),
        ("# coding=cp1252", "cp1252"),
        ("#!/usr/bin/env python\n# vim: set fileencoding=koi8-r :", "koi8-r"),
        ("# coding: utf-8", "utf-8"),
    ],
)
def test_an_encoding_cookie_is_honoured(cookie: str, encoding: str) -> None:
    letter = "ж" if encoding == "koi8-r" else "é"
    text = f"{cookie}\nx = '{letter}'\nloss.backward()\n"
    assert decode("train.py", text.encode(encoding)).text == text


def test_only_line_ends_end_a_line() -> None:
    """A form feed, a vertical tab or U+2028 in a string does not, or all lines after it would be off."""
    read = decode("train.py", "a = '\x0b\x1c\u2028\x0c'\nb = 1\n".encode())
    assert len(read.lines) == 3
    assert read.lines[1] == "b = 1"


@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb\xbf", b"# only a comment"])
def test_next_to_nothing_is_a_program(data: bytes) -> None:
    read = decode("train.py", data)
    assert read.tree is not None
    assert not read.tree.body


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x = '\xff\xfe'\n", "cannot be decoded"),
        (b"# coding: no-such-codec\n", "cannot be decoded"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "cannot be decoded"),
        (b"(" * 5000 + b")" * 5000, "nested|not Python"),
        (b"x = = 1\n" + b"[" * 500 + b"]" * 500, "not Python|nested"),
    ],
)
def test_what_cannot_be_read_says_why_in_one_line(data: bytes, message: str) -> None:
    with pytest.raises(Unreadable, match=message) as caught:
        decode("train.py", data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "line", "encoding"),
    [
        (b"a = 1\nb = 2\nc = '\xe9'\n", 3, "utf-8"),
        (b"# caf\xe9\n", 1, "utf-8"),
        (b"# coding: ascii\nc = '\xe9'\n", 2, "ascii"),
    ],
)
def test_a_byte_of_another_encoding_is_told_with_its_line(data: bytes, line: int, encoding: str) -> None:
    with pytest.raises(Unreadable, match=f"the byte 0xe9 of line {line} is not {encoding}") as caught:
        decode("train.py", data)
    assert caught.value.line == line


def test_a_deep_broken_file_names_its_line() -> None:
    with pytest.raises(Unreadable, match="line 2"):
        decode("train.py", b"a = 1\nx = = " + b"(" * 100 + b")" * 100)


def test_newer_syntax_than_this_python_reads_is_left_to_libcst() -> None:
    assert decode("train.py", b"x = = 1\n").tree is None


def test_null_bytes_are_no_program(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(b"loss.backward()\nx = 1\x00\n")
    report = check_paths([str(tmp_path)])
    assert [f.code for f in report.findings] == ["AMP900"]
    assert "null bytes" in report.failures[0].message


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("x = = 1", "invalid syntax"),
        ("print 'x'", "Missing parentheses"),
        ("def f(:", "invalid syntax"),
        ("1 = x", "cannot assign to literal"),
        ("  x = 1", "unexpected indent"),
        ("x = 'a", "unterminated string literal"),
        ("f(a", "was never closed"),
    ],
)
def test_a_syntax_error_is_one_clear_line_with_its_number(tmp_path: Path, line: str, what: str) -> None:
    (tmp_path / "train.py").write_text(f"loss.backward()\n\n{line}\n")
    (failure,) = check_paths([str(tmp_path)]).failures
    assert failure.message.startswith("not Python: line 3: ")
    assert what in failure.message
    assert "\n" not in failure.message


def test_the_refusal_says_what_to_do() -> None:
    with pytest.raises(Unreadable, match="save it as UTF-8"):
        decode("train.py", b"\xff")


# --- files ------------------------------------------------------------------------------------------------------


def test_a_files_bytes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(CODE.encode())
    assert read_bytes(str(tmp_path / "train.py")) == CODE.encode()


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="cannot be read: No such file"):
        read_bytes(str(tmp_path / "absent.py"))


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="not a regular file"):
        read_bytes(str(tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.py")
    with pytest.raises(Unreadable, match="not a regular file"):
        read_bytes(str(tmp_path / "train.py"))


def test_a_device_is_no_file() -> None:
    with pytest.raises(Unreadable, match="not a regular file"):
        read_bytes(os.devnull)


def test_a_file_too_large_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LARGEST", 2**20)
    (tmp_path / "train.py").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(Unreadable, match="larger than 1 MiB: not analysed"):
        read_bytes(str(tmp_path / "train.py"))


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(CODE.encode())

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(Unreadable, match="cannot be read: Permission denied"):
        read_bytes(str(path))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_mode_without_the_right_to_read(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(CODE.encode())
    path.chmod(0)
    with pytest.raises(Unreadable, match="Permission denied"):
        read_bytes(str(path))


def test_unsaved_text_stands_for_the_file_until_it_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_bytes(b"saved")
    with unsaved({str(tmp_path / "train.py"): b"edited", str(tmp_path / "new.py"): b"new"}):
        assert read_bytes("train.py") == read_bytes("./train.py") == b"edited"
        assert read_bytes("new.py") == b"new"
    assert read_bytes("train.py") == b"saved"


def test_unsaved_text_may_be_too_large_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LARGEST", 2**20)
    path = str(tmp_path / "train.py")
    with unsaved({path: b"#" * (2**20 + 1)}), pytest.raises(Unreadable, match="larger than 1 MiB"):
        read_bytes(path)


# --- the gate ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"loss.backward()",
        b"GradScaler",
        b"opt.zero_grad()",
        b"clip_grad_norm_(p)",
        b"torch.cuda.amp.autocast",
    ],
)
def test_a_token_of_a_training_step_passes(line: bytes) -> None:
    assert passes_gate(b"import torch\n" + line)


@pytest.mark.parametrize("line", [b"", b"import torch", b"optimizer = None\nmodel.forward(x)", b"print(1)"])
def test_anything_else_never_reaches_a_parser(line: bytes) -> None:
    assert not passes_gate(line)


def test_a_file_that_does_not_pass_is_not_even_decoded(tmp_path: Path) -> None:
    """A Python 2 script without a training step is nobody's business."""
    (tmp_path / "old.py").write_bytes(b"print 'hello \xff'\n")
    report = check_paths([str(tmp_path)])
    assert (report.findings, report.failures, report.files) == ((), (), 1)


# --- deep and long ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 5000 + "x" + ")" * 5000,
        " + ".join(["x"] * 5000),
        "x" + ".a" * 3000,
        "-" * 3000 + "x",
        "f(" * 200 + ")" * 200,
    ],
    ids=["parentheses", "terms", "attributes", "signs", "calls"],
)
def test_deep_nesting_neither_crashes_nor_hangs(tmp_path: Path, expression: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"loss = {expression}\nloss.backward()\n")
    report = check_paths([str(path)])
    assert {f.code for f in report.findings} <= {"AMP900", "AMP902"}
    if report.failures:
        assert "nested too deeply" in report.failures[0].message or "not Python" in report.failures[0].message


@pytest.mark.parametrize(
    "text",
    [
        "loss = " + " + ".join(["x"] * 300) + "\nloss.backward()\n",
        "if a == 0:\n    x.backward()\n" + "".join(f"elif a == {i}:\n    y = {i}\n" for i in range(1, 100)),
        "if " + " and ".join(["a"] * 300) + ":\n    loss.backward()\n",
        "loss = " + "f(" * 150 + "x" + ")" * 150 + "\nloss.backward()\n",
    ],
    ids=["300 terms", "100 elifs", "300 conditions", "150 calls"],
)
def test_what_people_generate_is_analysed(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(text)
    report = check_paths([str(tmp_path)])
    assert not report.failures
    assert report.files == 1


def test_deep_indentation(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    lines = [" " * depth + "if a:" for depth in range(90)]
    path.write_text("\n".join([*lines, " " * 90 + "loss.backward()"]) + "\n")
    assert not check_paths([str(path)]).failures


def test_many_lines(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("".join(f"a{i} = {i}\n" for i in range(20000)) + "loss.backward()\n")
    assert not check_paths([str(path)]).failures
