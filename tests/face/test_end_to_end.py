"""`ampcheck` as its users run it, on files of their own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

WRONG = """\
import torch
from torch.nn.utils import clip_grad_norm_

scaler = torch.amp.GradScaler("cuda")


def train(model, optimizer, loader):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
RIGHT = WRONG.replace("        clip_grad", "        scaler.unscale_(optimizer)\n        clip_grad")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a wrong loop, a right one and a file that trains nothing."""
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "other.py").write_text("print('hello')\n")
    return tmp_path


def test_a_wrong_loop_is_shown_with_what_the_gradients_carry(project: Path, ampcheck: Run) -> None:
    run = ampcheck("wrong.py")
    assert run.returncode == 1
    lines = run.stdout.splitlines()
    assert lines[0] == "wrong.py:12:9  AMP101 clip-before-unscale  error"
    assert "   11 │ scaler.scale(loss).backward()              gradients × S" in lines
    assert "   12 │ clip_grad_norm_(model.parameters(), 1.0)   clipped at 1.0 / S" in lines
    assert lines[-1] == "1 error in 1 file analysed"
    assert run.stderr == ""


def test_a_right_loop_is_clean(project: Path, ampcheck: Run) -> None:
    run = ampcheck("check", "right.py", "other.py")
    assert (run.returncode, run.stdout, run.stderr) == (0, "Clean: 2 files analysed\n", "")


def test_a_folder_is_searched(project: Path, ampcheck: Run) -> None:
    run = ampcheck("--format", "json")
    report = json.loads(run.stdout)
    assert run.returncode == 1
    assert report["files"] == 3
    (finding,) = report["findings"]
    assert (Path(finding["path"]), finding["line"], finding["code"]) == (Path("wrong.py"), 12, "AMP101")


@pytest.mark.parametrize(
    "broken", [b"def f(:\n", b"x = '\xff'\n", b"\0"], ids=["not Python", "not decodable", "not text"]
)
def test_a_broken_file_is_a_finding_and_the_others_are_checked(
    broken: bytes, project: Path, ampcheck: Run
) -> None:
    (project / "broken.py").write_bytes(b"# torch GradScaler backward step\n" + broken)
    run = ampcheck("--format", "json")
    report = json.loads(run.stdout)
    assert run.returncode == 1
    assert {(Path(f["path"]), f["code"]) for f in report["findings"]} == {
        (Path("broken.py"), "AMP900"),
        (Path("wrong.py"), "AMP101"),
    }
    assert [Path(error["path"]) for error in report["errors"]] == [Path("broken.py")]


def test_rules_can_be_left_out(project: Path, ampcheck: Run) -> None:
    assert ampcheck("wrong.py", "--ignore", "AMP1").returncode == 0
    assert ampcheck("wrong.py", "--select", "AMP2,AMP3").returncode == 0
    assert ampcheck("wrong.py", "--select", "clip-before-unscale").returncode == 1


def test_what_is_not_there_is_not_clean(project: Path, ampcheck: Run) -> None:
    (project / "empty").mkdir()
    run = ampcheck("right.py", "gone.py", "empty", "--exit-zero")
    assert run.returncode == 2
    assert "ampcheck: gone.py: no such file or directory\n" in run.stderr


def test_a_replay_confirms_it_with_figures(project: Path, ampcheck: Run) -> None:
    run = ampcheck("replay", "wrong.py", "--device", "cpu", "--format", "json")
    (finding,) = json.loads(run.stdout)["findings"]
    assert run.returncode == 1
    assert finding["replay"]["outcome"] == "confirmed"
    assert "0.125" in finding["replay"]["text"]
