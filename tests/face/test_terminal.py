"""Colour and progress are for those who watch."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from ampcheck.cli import main
from ampcheck.report import FORMATS
from ampcheck.report.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(checkout: Path, *arguments: str, **environment: str) -> str:
    """What a command prints to a terminal."""
    parent, child = pty.openpty()
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    process = subprocess.Popen(
        [sys.executable, "-m", "ampcheck", *arguments],
        cwd=checkout,
        env={**env, "TERM": "xterm-256color", **environment},
        stdout=child,
        stderr=child,
    )
    os.close(child)
    read = b""
    try:
        while block := os.read(parent, 65536):
            read += block
    except OSError:  # Linux says EIO where the other end has closed
        pass
    os.close(parent)
    process.wait()
    return read.decode()


@pytest.mark.parametrize("arguments", [["rules"], ["explain", "AMP101"]])
def test_colour_is_for_terminals(arguments: list[str], checkout: Path) -> None:
    assert "\x1b[" in on_terminal(checkout, *arguments)
    assert "\x1b[" not in on_terminal(checkout, *arguments, NO_COLOR="1")
    assert "\x1b[" not in on_terminal(checkout, *arguments, TERM="dumb")


def in_a_pipe(checkout: Path, *arguments: str, **environment: str) -> str:
    """What a command prints where nobody watches, with colour asked for or not."""
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    run = subprocess.run(
        [sys.executable, "-m", "ampcheck", *arguments],
        cwd=checkout,
        env={**env, "TERM": "xterm-256color", **environment},
        capture_output=True,
        text=True,
    )
    return run.stdout


def test_the_environment_can_force_colour(checkout: Path) -> None:
    assert "\x1b[" in in_a_pipe(checkout, "rules", FORCE_COLOR="1")
    assert "\x1b[" not in in_a_pipe(checkout, "rules", FORCE_COLOR="1", NO_COLOR="1")


@pytest.mark.parametrize(
    ("when", "environment", "coloured"),
    [
        ("auto", {}, False),
        ("auto", {"FORCE_COLOR": "1"}, True),
        ("auto", {"FORCE_COLOR": "0"}, False),
        ("auto", {"FORCE_COLOR": ""}, False),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("always", {"NO_COLOR": "1"}, True),
        ("always", {"TERM": "dumb"}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
    ],
)
@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "AMP101"],
        ["rules"],
        ["check", "fixtures/tour/plain_amp.py"],
        ["timeline", "fixtures/tour/plain_amp.py"],
    ],
)
def test_color_comes_before_the_environment(
    arguments: list[str],
    when: str,
    environment: dict[str, str],
    coloured: bool,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(checkout)
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    main([*arguments, "--color", when])
    assert ("\x1b[" in capsys.readouterr().out) is coloured


@pytest.mark.parametrize("form", sorted({*FORMATS} - {"text", "concise", "github"}))
def test_what_programs_read_is_never_coloured(
    form: str, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(checkout)
    arguments = ["fixtures/tour/plain_amp.py", "--format", form]
    main([*arguments, "--color", "never"])
    plain = capsys.readouterr().out
    main([*arguments, "--color", "always"])
    assert capsys.readouterr().out == plain


def test_a_file_is_never_coloured(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    main(["fixtures/tour/plain_amp.py", "--color", "always", "--output-file", str(tmp_path / "report")])
    assert "\x1b[" not in (tmp_path / "report").read_text("utf-8")


def test_no_colour_in_a_file(checkout: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "ampcheck", "rules"], cwd=checkout, capture_output=True, check=True
    )
    assert b"\x1b[" not in run.stdout


def test_a_closed_pipe_is_quiet(checkout: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "ampcheck", "rules"],
        cwd=checkout,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 141


def test_an_ascii_terminal_gets_escapes(checkout: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "ampcheck", "check", "nowhere-é"],
        cwd=checkout,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
    )
    assert run.returncode == 2
    assert b"Traceback" not in run.stderr


def test_short_work_draws_no_bar() -> None:
    stream = Terminal()
    with Progress("checking", stream, patience=60) as progress:
        progress.advance("a.py")
    assert stream.getvalue() == ""


def test_long_work_draws_a_bar_on_a_terminal() -> None:
    stream = Terminal()
    with Progress("checking", stream, total=2, patience=0) as progress:
        progress.advance("a[b].py")
    assert "checking" in stream.getvalue()


def test_work_that_becomes_long_draws_a_bar() -> None:
    stream = Terminal()
    progress = Progress("checking", stream, patience=0)
    progress.advance("a.py")
    progress.__exit__(None, None, None)
    assert "checking" in stream.getvalue()


def test_nothing_is_drawn_where_nobody_watches() -> None:
    stream = io.StringIO()
    with Progress("checking", stream, patience=0) as progress:
        progress.advance("a.py")
    assert stream.getvalue() == ""
