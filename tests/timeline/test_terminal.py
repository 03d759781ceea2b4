"""`ampcheck timeline`: the same picture in a terminal, whatever it can show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from ampcheck.cli import main
from ampcheck.timeline.cells import wrapped

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def plain(checkout: Path) -> str:
    return str(checkout / "fixtures" / "tour" / "plain_amp.py")


def test_the_window_stands_beside_the_correct_order(plain: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", plain, "--loop", "clip_scaled_norm", "--width", "100"]) == 0
    said = capsys.readouterr().out
    (heads,) = [line for line in said.splitlines() if "this loop" in line]
    assert "the correct order" in heads
    assert "✗ AMP101" in said
    assert "clipped at 1.0 / S" in said
    assert "line 20, × S" in said


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_asked(width: int, plain: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", plain, "--width", str(width)]) == 0
    frames = [line for line in capsys.readouterr().out.splitlines() if set(line) & set("│╭╰┃")]
    assert frames
    assert max(map(len, frames)) <= width


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("gradients × S / K, 2 micro-batches", ["gradients × S / K (2)"]),
        ("steps on gradients / K, 3 micro-batches", ["steps on", "gradients / K (3)"]),
        ("unscaled here, after the clip", ["unscaled here, after", "the clip"]),
        ("gradients, mixed: S and 1, 2 micro-batches", ["gradients, mixed: S", "and 1 (2)"]),
    ],
)
def test_what_the_gradients_carry_stays_in_one_piece(text: str, lines: list[str]) -> None:
    assert wrapped(text, 22) == lines


def test_what_is_said_below_a_picture_is_indented(plain: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", plain, "--loop", "clip_scaled_norm", "--width", "80"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (said,) = [number for number, line in enumerate(lines) if line.startswith("  AMP101 ")]
    assert lines[said + 1].startswith("  still carry ")


def test_without_colour_and_characters_nothing_is_lost(plain: str, ampcheck: Run) -> None:
    run = ampcheck("timeline", plain, "--loop", "clip_scaled_norm", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert run.returncode == 0
    assert run.stdout.isascii()
    assert "\x1b[" not in run.stdout
    assert "x AMP101" in run.stdout
    assert "gradients x S" in run.stdout


def test_a_loop_that_is_not_there(plain: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", plain, "--loop", "clip_scaled_nrm"]) == 2
    assert "no loop is called 'clip_scaled_nrm'; there are: clip_scaled_norm()" in capsys.readouterr().err


def test_a_width_that_is_none(plain: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["timeline", plain, "--width", "wide"])
    assert stop.value.code == 2
    assert "'wide' is no number of characters from 40" in capsys.readouterr().err


def test_a_file_without_a_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plain.py").write_text("x = 1\n")
    assert main(["timeline", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "ampcheck: no training loop found\n"


def test_the_picture_in_the_docs_is_real(checkout: Path, ampcheck: Run) -> None:
    text = (checkout / "docs" / "audit.md").read_text("utf-8")
    shown = text.split("```text\n")[1].split("```")[0].splitlines()
    run = ampcheck("timeline", "fixtures/tour/plain_amp.py", cwd=checkout, COLUMNS="80")
    said = [line.rstrip() for line in run.stdout.splitlines()]
    start = said.index(shown[0])
    assert said[start : start + len(shown)] == shown


def test_a_cell_of_the_picture_says_which_file_its_line_is_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_name_that_is_too_long.py").write_text("def step(opt, scaler):\n    scaler.step(opt)\n")
    (tmp_path / "main.py").write_text(
        "import torch\n"
        "from a_name_that_is_too_long import step\n"
        "def train(model, opt, loader):\n"
        "    scaler = torch.amp.GradScaler()\n"
        "    for x, y in loader:\n"
        "        scaler.scale(model(x).sum()).backward()\n"
        "        step(opt, scaler)\n"
        "        scaler.update()\n"
        "        opt.zero_grad()\n"
    )
    assert main(["timeline", "main.py", "--width", "80"]) == 0
    said = capsys.readouterr().out
    assert "line 6, × S" in said
    assert "…oo_long.py:2, true" in said


def test_in_a_notebook_the_picture_counts_lines_as_findings_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = (
        "import torch\nscaler = torch.amp.GradScaler()\nopt = torch.optim.SGD(model.parameters())",
        "for x, y in loader:\n    scaler.scale(model(x).sum()).backward()\n    scaler.step(opt)\n"
        "    scaler.update()\n    opt.zero_grad()",
    )
    code = [{"cell_type": "code", "metadata": {}, "source": cell, "outputs": []} for cell in cells]
    (tmp_path / "train.ipynb").write_text(json.dumps({"cells": code, "metadata": {}, "nbformat": 4}))
    assert main(["timeline", "train.ipynb", "--width", "80"]) == 0
    said = capsys.readouterr().out
    assert "cell 2:2, × S" in said
    assert "cell 2:5, none" in said


def test_a_file_that_is_no_python_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def train(:\n    loss.backward()\n    optimizer.step()\n")
    assert main(["timeline", str(broken)]) == 2
    assert capsys.readouterr().err == (
        f"ampcheck: {broken}: not Python: line 1: invalid syntax\nampcheck: no training loop found\n"
    )
