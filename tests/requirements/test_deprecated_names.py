"""AMP604 and its fix keep to the torch that a project works with."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampcheck.check import check_paths
from ampcheck.fixes import propose
from ampcheck.fixes.proof import prove

SCRIPT = """
import torch


def train(model, loader, optimizer):
    scaler = torch.cuda.amp.GradScaler()
    for x in loader:
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path / "train.py"


@pytest.mark.parametrize(
    ("declared", "codes"),
    [("torch", ["AMP604"]), ("torch>=1.10", ["AMP604"]), ("torch==1.13.1", []), ("torch<2.4", [])],
)
def test_no_name_is_deprecated_for_a_project_that_keeps_to_an_older_torch(
    declared: str, codes: list[str], script: Path
) -> None:
    script.with_name("requirements.txt").write_text(declared)
    assert [f.code for f in check_paths([str(script)]).findings] == codes


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ("torch", ""),
        ("torch>=2.3", ""),
        (
            "torch>=1.10",
            "requirements.txt admits torch 1.10.0 (torch>=1.10), and the new name is there since 2.3",
        ),
    ],
)
def test_a_new_name_that_a_declared_torch_does_not_have_is_unsafe(
    declared: str, why: str, script: Path
) -> None:
    script.with_name("requirements.txt").write_text(declared)
    (proven,) = prove(propose(check_paths([str(script)]).findings))
    fix = proven.finding.fix
    assert fix is not None
    assert fix.why == why
    assert (fix.applicability == "safe") is (why == "")
