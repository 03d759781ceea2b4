"""Whose settings a file has, and what they do to its findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ampcheck.check import check_paths
from ampcheck.cli import main
from ampcheck.settings import Nearest

FAULTY = """\
import torch
scaler = torch.amp.GradScaler("cuda")
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x, y in loader:
    scaler.scale(criterion(model(x), y)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two faulty files, one of them in a folder of its own; the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text(FAULTY)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.py").write_text(FAULTY)
    return tmp_path


def section(text: str) -> str:
    return f"[tool.ampcheck]\n{text}\n"


def found(*arguments: str) -> list[tuple[str, str, str]]:
    """Path, code and severity of what a check with these settings shows."""
    report = check_paths(arguments or ["."], settings=Nearest())
    assert not report.failures
    return [(f.site.path, f.code, f.severity) for f in report.findings]


ALL = [("a.py", "AMP101", "error"), ("sub/b.py", "AMP101", "error")]


def test_without_a_file_everything_is_as_usual(project: Path) -> None:
    assert found() == ALL


def test_the_nearest_file_alone_counts(project: Path) -> None:
    (project / "pyproject.toml").write_text(section('ignore = ["AMP1"]'))
    (project / "sub" / "ampcheck.toml").write_text('severity = { AMP101 = "note" }')
    assert found() == [("sub/b.py", "AMP101", "note")]


def test_a_project_file_without_our_section_is_passed_over(project: Path) -> None:
    (project / "pyproject.toml").write_text(section('ignore = ["AMP1"]'))
    (project / "sub" / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    assert found() == []


def test_our_own_file_goes_before_the_project_file(project: Path) -> None:
    (project / "pyproject.toml").write_text(section('ignore = ["AMP1"]'))
    (project / "ampcheck.toml").write_text("")
    assert found() == ALL


def test_files_by_pattern_from_the_settings_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "pyproject.toml").write_text(section('per-file-ignores = { "sub/*.py" = ["AMP1"] }'))
    assert found() == ALL[:1]
    monkeypatch.chdir(project / "sub")
    assert found() == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('select = ["AMP1"]', True),
        ('select = ["AMP2"]', False),
        ('select = ["AMP2"]\nextend-select = ["clip-before-unscale"]', True),
        ('ignore = ["AMP101"]', False),
        ('ignore = ["AMP1"]\nextend-select = ["AMP101"]', True),
        ('select = ["AMP1"]\nignore = ["AMP101"]', False),
        ('select = ["AMP101"]\nignore = ["AMP1"]', True),
        ('select = ["AMP1"]\nignore = ["AMP1"]', False),
    ],
)
def test_the_longer_selector_decides(project: Path, text: str, shown: bool) -> None:
    (project / "pyproject.toml").write_text(section(text))
    assert found("a.py") == (ALL[:1] if shown else [])


def test_the_longer_selector_says_the_severity(project: Path) -> None:
    (project / "ampcheck.toml").write_text('severity = { AMP101 = "note", AMP1 = "warning" }')
    assert found("a.py") == [("a.py", "AMP101", "note")]


def codes(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    main(["check", "--format", "json", *arguments])
    return [finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]]


def test_the_command_line_goes_before_the_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "ampcheck.toml").write_text('ignore = ["AMP101"]')
    assert codes(capsys, "a.py") == []
    assert codes(capsys, "a.py", "--select", "AMP1") == ["AMP101"]
    assert codes(capsys, "a.py", "--extend-select", "AMP101") == []
    assert codes(capsys, "a.py", "--isolated") == ["AMP101"]


def test_one_file_for_everything(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "sub" / "ampcheck.toml").write_text('ignore = ["AMP1"]')
    other = project / "other.toml"
    other.write_text('select = ["AMP1"]')
    assert codes(capsys, "sub") == []
    assert codes(capsys, "sub", "--config", str(other)) == ["AMP101"]
    assert main(["check", "--config", "none.toml"]) == 2
    assert capsys.readouterr().err == "ampcheck: none.toml: cannot be read: No such file or directory\n"


def test_a_mistake_in_the_settings_is_no_clean_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text(section('selct = ["AMP1"]'))
    assert main(["check", "a.py"]) == 2
    said = capsys.readouterr()
    assert said.err == "ampcheck: pyproject.toml:2: unknown key `selct`: did you mean `select`?\n"
    assert not said.out


def test_each_mistake_in_the_settings_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ampcheck.toml").write_text('possible = "yes"\ndevice = "tpu"\n')
    Path("a.py").write_text("x = 1\n")
    assert main(["check", "a.py"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("ampcheck: ampcheck.toml:1: `possible`")
    assert second.startswith("ampcheck: ampcheck.toml:2: `device`")


def test_files_with_other_settings_are_still_checked(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "sub" / "ampcheck.toml").write_text('selct = ["AMP1"]')
    assert main(["check", "--format", "concise"]) == 2
    said = capsys.readouterr()
    assert "a.py:6:5: AMP101" in said.out
    assert "1 file analysed, 1 not analysed" in said.out
    assert said.err == "ampcheck: sub/ampcheck.toml: line 1: unknown key `selct`: did you mean `select`?\n"


def test_a_broken_project_file_matters_only_if_it_speaks_of_us(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.other\n")
    assert found() == ALL
    (project / "pyproject.toml").write_text("[tool.ampcheck\n")
    (failure,) = check_paths(["."], settings=Nearest()).failures
    assert failure.path == "pyproject.toml"
