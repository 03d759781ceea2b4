"""Where a report goes, what fails a run, and code from standard input."""

from __future__ import annotations

import io
import json
import linecache
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ampcheck.cli import main
from ampcheck.commands.linting import conclude
from ampcheck.finding import Failure, Finding, Replay, Report
from ampcheck.source import exists
from tests.face.test_end_to_end import RIGHT, WRONG
from tests.notebooks import notebook

Checked = Callable[[Report], list[tuple[list[str], Any]]]
Piped = Callable[[str | bytes], None]


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Piped:
    """Give the process a standard input, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(linecache, "cache", {})

    def pipe(text: str | bytes) -> None:
        data = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return pipe


# --- a file instead of the screen -------------------------------------------------------------------------------


def test_the_report_goes_into_a_file(
    clipped: Finding, checked: Checked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checked(Report((clipped,), files=1))
    (tmp_path / "report.json").write_text("of yesterday " * 1000)
    assert main(["train.py", "--format", "json", "--output-file", "report.json"]) == 1
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["files"] == 1
    assert capsys.readouterr() == ("", "")


def test_a_file_is_utf_8_wherever_it_is_written(clipped: Finding, checked: Checked, tmp_path: Path) -> None:
    checked(Report((clipped,), files=1))
    main(["train.py", "--output-file", "report.txt"])
    assert "gradients × S" in (tmp_path / "report.txt").read_text("utf-8")


def test_the_audit_s_spelling_is_understood(clipped: Finding, checked: Checked, tmp_path: Path) -> None:
    checked(Report((clipped,), files=1))
    assert main(["check", "train.py", "--format", "json", "--output", "report.json"]) == 1
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["files"] == 1


def test_a_dash_is_the_screen(
    clipped: Finding, checked: Checked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checked(Report((clipped,), files=1))
    assert main(["train.py", "--output-file", "-"]) == 1
    assert "AMP101" in capsys.readouterr().out
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize(
    ("path", "why"), [("nowhere/report.json", "no such folder: nowhere"), ("folder", "folder is a folder")]
)
def test_a_file_that_cannot_be_made_is_said_before_the_work(
    path: str,
    why: str,
    clipped: Finding,
    checked: Checked,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = checked(Report(files=1))
    (tmp_path / "folder").mkdir()
    with pytest.raises(SystemExit) as exit_:
        main(["train.py", "--output-file", path])
    assert (exit_.value.code, asked) == (2, [])
    assert why in capsys.readouterr().err


def test_a_file_that_may_not_be_written_is_one_line(
    clipped: Finding, checked: Checked, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checked(Report((clipped,), files=1))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setitem(conclude.__globals__, "open", refuse)
    assert main(["train.py", "--output-file", "report.txt"]) == 2
    assert capsys.readouterr().err == "ampcheck: report.txt: cannot be written: Permission denied\n"


# --- counts -----------------------------------------------------------------------------------------------------


def test_statistics_instead_of_findings(
    clipped: Finding, checked: Checked, capsys: pytest.CaptureFixture[str]
) -> None:
    checked(Report((clipped, clipped), files=1))
    assert main(["train.py", "--statistics"]) == 1
    assert capsys.readouterr().out == "2  AMP101  clip-before-unscale  error\n\n2 errors in 1 file analysed\n"


def test_statistics_have_no_form_in_most_formats(
    clipped: Finding, checked: Checked, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = checked(Report((clipped,), files=1))
    assert main(["train.py", "--statistics", "--format", "sarif"]) == 2
    assert not asked
    assert capsys.readouterr().err == (
        "ampcheck: --statistics has no form in sarif: use text, concise, json\n"
    )


# --- what fails a run -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "codes"),
    [
        ("error", (1, 0, 0)),
        ("warning", (1, 1, 0)),
        ("note", (1, 1, 1)),
        ("never", (0, 0, 0)),
        (None, (1, 1, 0)),
    ],
)
def test_a_run_fails_for_what_is_bad_enough(
    least: str | None, codes: Sequence[int], clipped: Finding, checked: Checked
) -> None:
    for severity, code in zip(("error", "warning", "note"), codes, strict=True):
        checked(Report((replace(clipped, severity=severity),), files=1))  # type: ignore[arg-type]
        options = ["--fail-on", least] if least else []
        assert main(["train.py", *options]) == code
        assert main(["train.py", *options, "--exit-zero"]) == 0


def test_what_was_refuted_never_fails_a_run(clipped: Finding, checked: Checked) -> None:
    refuted = replace(clipped, severity="note", replay=Replay("refuted", "cpu"))
    checked(Report((refuted,), files=1))
    assert main(["train.py", "--fail-on", "note"]) == 0


def test_what_was_not_analysed_exits_2_all_the_same(clipped: Finding, checked: Checked) -> None:
    checked(Report((), (Failure("x.py", "not Python"),), files=1))
    assert main(["train.py", "--fail-on", "error", "--format", "github"]) == 2


# --- standard input ---------------------------------------------------------------------------------------------


def test_standard_input_is_checked_under_a_name(piped: Piped, capsys: pytest.CaptureFixture[str]) -> None:
    piped(WRONG)
    assert main(["check", "-", "--stdin-filename", "new/wrong.py"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "new/wrong.py:12:9  AMP101 clip-before-unscale  error"
    assert "   12 │ clip_grad_norm_(model.parameters(), 1.0)   clipped at 1.0 / S" in lines


def test_standard_input_without_a_name(piped: Piped, capsys: pytest.CaptureFixture[str]) -> None:
    piped(WRONG)
    assert main(["-", "--format", "concise"]) == 1
    assert capsys.readouterr().out.startswith("-:12:9: AMP101 clip-before-unscale error: ")


def test_standard_input_comes_before_what_is_saved(piped: Piped, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRONG)
    piped(RIGHT)
    assert main(["-", "--stdin-filename", "train.py"]) == 0
    assert main(["train.py"]) == 1


def test_standard_input_is_seen_by_the_file_that_imports_it(piped: Piped, tmp_path: Path) -> None:
    """A helper that is edited is judged in the loop that calls it, and the loop stands on disk."""
    helper = (
        "from torch.nn.utils import clip_grad_norm_\n\n\n"
        "def finish(scaler, optimizer, model):\n    clip_grad_norm_(model.parameters(), 1.0)\n"
        "    scaler.step(optimizer)\n    scaler.update()\n"
    )
    loop = WRONG[: WRONG.index("        clip_grad")] + "        finish(scaler, optimizer, model)\n"
    (tmp_path / "loop.py").write_text("from helper import finish\n" + loop)
    (tmp_path / "helper.py").write_text("def finish(scaler, optimizer, model): ...\n")
    piped(helper)
    assert main(["-", "--stdin-filename", "helper.py", "--select", "AMP101"]) == 1


def test_a_notebook_from_standard_input(piped: Piped, capsys: pytest.CaptureFixture[str]) -> None:
    piped(notebook("print(1)", WRONG))
    assert main(["-", "--stdin-filename", "a.ipynb", "--format", "concise"]) == 1
    assert capsys.readouterr().out.startswith("a.ipynb:cell 2:12:9: AMP101")


def test_a_notebook_from_standard_input_has_the_lines_of_its_own_json(
    piped: Piped, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(json.loads(notebook("print(1)", WRONG)), indent=1)
    (tmp_path / "a.ipynb").write_text(text.replace("\n", "\n\n"))
    piped(text)
    main(["-", "--stdin-filename", "a.ipynb", "--format", "rdjson"])
    (shown,) = json.loads(capsys.readouterr().out)["diagnostics"]
    line = shown["location"]["range"]["start"]["line"]
    assert "clip_grad_norm_(model" in text.splitlines()[line - 1]


def test_standard_input_in_another_encoding(piped: Piped, capsys: pytest.CaptureFixture[str]) -> None:
    piped(b"# coding: latin-1\n" + WRONG.replace("(model.par", "(modèle.par").encode("latin-1"))
    assert main(["-"]) == 1
    assert "clip_grad_norm_(modèle.parameters(), 1.0)" in capsys.readouterr().out


def test_a_command_forgets_what_it_was_given(piped: Piped, tmp_path: Path) -> None:
    piped(WRONG)
    assert main(["-", "--stdin-filename", "train.py"]) == 1
    assert not exists("train.py")


def test_broken_code_from_standard_input(piped: Piped, capsys: pytest.CaptureFixture[str]) -> None:
    piped(b"loss.backward()\ndef f(:\n")
    assert main(["-", "--stdin-filename", "a.py"]) == 1
    assert "a.py:2:1  AMP900 unreadable-file" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-", "train.py"], "standard input) cannot be checked together with other paths"),
        (["train.py", "--stdin-filename", "x.py"], "--stdin-filename goes with the path `-`"),
        (["--stdin-filename", "x.py"], "--stdin-filename goes with the path `-`"),
        (["-", "--stdin-filename", "."], "--stdin-filename .: is a folder"),
        (["-", "--since", "main"], "--since compares files on disk"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    arguments: list[str], why: str, piped: Piped, capsys: pytest.CaptureFixture[str]
) -> None:
    piped("")
    assert main(["check", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert why in said.err
    assert said.err.count("\n") == 1
