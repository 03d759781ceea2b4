"""A report that asks much of a format: a notebook, an odd path, figures that are not finite, failures."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ampcheck.check import check_paths
from ampcheck.events import Site
from ampcheck.finding import Failure, Finding, Replay, Report
from ampcheck.report import FORMATS
from ampcheck.report.line import plain
from tests.notebooks import notebook

ODD = "a b/ü%,:.py"
"""A path that every format must quote in its own way."""

SCALE = "import torch\n\nscaler = torch.amp.GradScaler('cuda')"
LOOP = """\
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""


def formatted(name: str, report: Report) -> str:
    """The report as it is printed."""
    return "".join(f"{plain(line)}\n" for line in FORMATS[name](report))


def schema(name: str) -> Any:
    return json.loads((Path(__file__).parent / "schemas" / name).read_text("utf-8"))


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    """The findings in `train.ipynb`, whose loop is the second code cell, below a cell of prose."""
    monkeypatch.chdir(tmp_path)
    prose = {"cell_type": "markdown", "metadata": {}, "source": ["# Training\n", "as it should not be"]}
    data = json.loads(notebook(SCALE, prose, LOOP))
    (tmp_path / "train.ipynb").write_text(json.dumps(data, indent=1))
    report = check_paths(["train.ipynb"])
    assert [finding.code for finding in report.findings] == ["AMP101"]
    return report


@pytest.fixture
def hard(clipped: Finding, cells: Report) -> Report:
    """Findings of every severity, in odd places, and two failures, of which one is a finding as well."""
    odd = replace(clipped, site=replace(clipped.site, path=ODD), severity="warning", condition="")
    unread = Finding("AMP900", "unreadable-file", "error", "certain", Site("x.py", 1, 1, 1, 1), "not Python")
    measured = Replay("confirmed", "cpu", {"clip-norm": float("inf")}, "50% more\nthan expected")
    note = replace(clipped, severity="note", verdict="possible", message="a, b: <c> & 100%\nmore")
    return Report(
        (odd, replace(clipped, replay=measured), note, *cells.findings, unread),
        (Failure("x.py", "not Python"), Failure("gone.py", "no such file or directory")),
        files=4,
        notebooks=cells.notebooks,
    )


@pytest.fixture
def raw_line(cells: Report) -> Callable[[str], int]:
    """The line of the notebook's JSON that holds a text."""
    lines = Path("train.ipynb").read_text().splitlines()
    return lambda text: next(number for number, line in enumerate(lines, start=1) if text in line)
