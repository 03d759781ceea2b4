"""Fingerprints: the same for the same fault, wherever its lines have moved; different for different ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampcheck.check import check_paths
from ampcheck.fingerprint import fingerprint, fingerprints
from tests.notebooks import notebook

SETUP = """\
import torch
scaler = torch.amp.GradScaler("cuda")
optimizer = torch.optim.SGD(model.parameters(), 0.1)
"""
LOOP = """\
def train(loader):
    for x, y in loader:
        scaler.scale(criterion(model(x), y)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


def prints(path: Path, text: str | bytes) -> tuple[str, ...]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    report = check_paths([str(path)])
    assert {finding.code for finding in report.findings} == {"AMP101"}
    found = fingerprints(report)
    assert [fingerprint(finding, report) for finding in report.findings] == list(found)
    return found


@pytest.mark.parametrize(
    ("moved", "why"),
    [
        ("# a comment\n\n" + SETUP + "\n\n\n" + LOOP, "lines above"),
        (SETUP + "def quiet():\n    pass\n\n" + LOOP, "another function above"),
        (SETUP + LOOP.replace("1.0)", "1.0)  # why"), "a comment behind"),
        (
            SETUP + LOOP.replace("(model.parameters(), 1.0)", "(\n    model.parameters(),\n    1.0\n)"),
            "wrapped",
        ),
        (SETUP + LOOP.replace("\n    ", "\n  "), "indented otherwise"),
        ((SETUP + LOOP).replace("\n", "\r\n"), "line ends"),
    ],
)
def test_it_stays_when_lines_move(tmp_path: Path, moved: str, why: str) -> None:
    path = tmp_path / "train.py"
    assert prints(path, SETUP + LOOP) == prints(path, moved), why


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (SETUP + LOOP.replace("1.0)", "2.0)"), "another threshold"),
        (SETUP + LOOP.replace("def train", "def fit"), "another function"),
    ],
)
def test_another_place_is_another_fingerprint(tmp_path: Path, other: str, why: str) -> None:
    path = tmp_path / "train.py"
    assert not set(prints(path, SETUP + LOOP)) & set(prints(path, other)), why


def test_another_file_is_another_fingerprint(tmp_path: Path) -> None:
    assert prints(tmp_path / "a.py", SETUP + LOOP) != prints(tmp_path / "b.py", SETUP + LOOP)


def test_equal_places_are_told_apart(tmp_path: Path) -> None:
    body = LOOP.split("\n", 1)[1].replace("    for", "for").replace("\n    ", "\n")
    found = prints(tmp_path / "train.py", SETUP + body + body)
    assert len(set(found)) == len(found) == 2


def test_module_code_after_a_function_is_not_inside_it(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    body = LOOP.split("\n", 1)[1].replace("    for", "for").replace("\n    ", "\n")
    assert prints(path, SETUP + body) == prints(path, SETUP + "def quiet():\n    pass\n\n" + body)


def test_the_folder_it_is_run_from_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(SETUP + LOOP)
    found = set()
    for folder, path in (
        (tmp_path, "code/train.py"),
        (tmp_path / "code", "train.py"),
        (Path("/"), str(tmp_path)),
    ):
        monkeypatch.chdir(folder)
        found.add(fingerprints(check_paths([path])))
    assert len(found) == 1


def test_in_a_notebook_it_does_not_depend_on_the_cell(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    first = prints(path, notebook(SETUP, LOOP))
    assert first == prints(path, notebook("# prose", "%time print()", SETUP, "%%time\n" + LOOP))
