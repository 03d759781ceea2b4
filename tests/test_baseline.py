"""A baseline: what it knows is left out, what is new is shown, what is gone is asked to be struck out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ampcheck.cli import main

SETUP = 'import torch\nscaler = torch.amp.GradScaler("cuda")\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\n'
LOOP = """\
for x, y in loader:
    scaler.scale(criterion(model(x), y)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
RIGHT = LOOP.replace("    torch.nn", "    scaler.unscale_(optimizer)\n    torch.nn")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A faulty file and its baseline, `known.json`, which a settings file names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ampcheck.toml").write_text('baseline = "known.json"\n')
    (tmp_path / "train.py").write_text(SETUP + LOOP)
    assert main(["check", "--write-baseline"]) == 0
    assert capsys.readouterr().out == "known.json: 1 finding (1 new, 0 gone)\n"
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[tuple[str, str, int]]:
    main(["check", "--format", "json", *arguments])
    report = json.loads(capsys.readouterr().out)
    return [(f["path"], f["code"], f["line"]) for f in report["findings"]]


def test_what_is_known_is_left_out(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 0
    assert capsys.readouterr().out == "Clean: 1 file analysed, 1 in the baseline\n"
    assert found(capsys, "--isolated") == [("train.py", "AMP101", 6)]
    assert found(capsys, "--isolated", "--baseline", "known.json") == []


def test_lines_may_move(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text('"""Trains."""\n\n' + SETUP + "\n\n" + LOOP)
    assert found(capsys) == []


def test_what_is_new_is_shown(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text(SETUP + LOOP + LOOP.replace("1.0", "2.0"))
    assert found(capsys) == [("train.py", "AMP101", 12)]
    (project / "train.py").write_text(SETUP + LOOP + LOOP)
    assert len(found(capsys)) == 1


def test_what_is_gone_has_to_be_struck_out(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text(SETUP + RIGHT)
    assert main(["check", "--format", "concise"]) == 1
    said = "AMP101 in train.py is in the baseline, and is found no more"
    assert capsys.readouterr().out.startswith(f"known.json:4:1: AMP901 unused-suppression warning: {said}\n")
    assert main(["check", "--write-baseline"]) == 0
    assert capsys.readouterr().out == "known.json: 0 findings (0 new, 1 gone)\n"
    assert main(["check"]) == 0


def test_what_was_not_looked_for_is_not_gone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text(SETUP + RIGHT)
    (project / "other.py").write_text("x = 1\n")
    assert found(capsys, "other.py") == []
    assert found(capsys, "--select", "AMP2,AMP9") == []
    assert found(capsys, "--ignore", "AMP901") == []
    (project / "train.py").unlink()
    assert found(capsys, "other.py") == [("known.json", "AMP901", 4)]


def test_files_that_are_not_checked_stay_known(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "other.py").write_text(SETUP + LOOP)
    assert main(["check", "other.py", "--write-baseline"]) == 0
    assert capsys.readouterr().out == "known.json: 2 findings (1 new, 0 gone)\n"
    assert found(capsys) == []


def test_what_was_not_analysed_stays_unknown(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "broken.py").write_text("loss.backward(\n")
    (project / "other.py").write_text("x = 1  # ampcheck: ignore[AMP101]\n")
    assert main(["check", "--write-baseline"]) == 2
    assert capsys.readouterr().out == "known.json: 1 finding (0 new, 0 gone)\n"
    assert [code for _, code, _ in found(capsys)] == ["AMP900", "AMP901"]


def test_it_is_known_from_any_folder(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "inner").mkdir()
    monkeypatch.chdir(project / "inner")
    assert found(capsys, "..") == []
    monkeypatch.chdir("/")
    assert found(capsys, str(project), "--config", str(project / "ampcheck.toml")) == []


def test_a_merge_of_two_branches_is_one_line_each(project: Path) -> None:
    (project / "other.py").write_text(SETUP + LOOP)
    before = (project / "known.json").read_text().splitlines()
    main(["check", "--write-baseline"])
    after = (project / "known.json").read_text().splitlines()
    assert len(after) == len(before) + 1
    assert [entry["path"] for entry in json.loads("\n".join(after))["findings"]] == ["other.py", "train.py"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "no baseline: Expecting value"),
        ("[]", "no baseline of this version"),
        ('{"version": 2, "findings": []}', "no baseline of this version"),
        ('{"version": 1, "findings": [{"path": "x"}]}', "is no entry"),
        ('{"version": 1}', "is no entry"),
    ],
)
def test_a_file_that_is_none(project: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    (project / "known.json").write_text(text)
    assert main(["check"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("ampcheck: known.json: ")
    assert said in error
    assert "--write-baseline" in error


def test_what_does_not_go_together(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["--write-baseline", "--isolated"],
        ["--write-baseline", "--since", "HEAD"],
        ["--write-baseline", "-"],
        ["--baseline", "none.json"],
    ):
        assert main(["check", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1
