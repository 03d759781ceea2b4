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


def test_a_fix_that_renames_a_later_name_too_is_unsafe(script: Path) -> None:
    """`autocast` is in torch.amp since 1.10, but its import gives `GradScaler` as well, which came with 2.3."""
    old = "import torch\nfrom torch.cuda.amp import GradScaler, autocast\n"
    text = SCRIPT.replace("import torch\n", old).replace("torch.cuda.amp.GradScaler", "GradScaler")
    script.write_text(text.replace('torch.amp.autocast("cuda", dtype=torch.float16)', "autocast()"))
    script.with_name("requirements.txt").write_text("torch>=1.10")
    proposals = propose(check_paths([str(script)]).findings)
    assert [p.finding.message.split("`")[1].rsplit(".", 1)[1] for p in proposals] == [
        "GradScaler",
        "autocast",
    ]
    assert all(p.finding.fix is not None and "is there since 2.3" in p.finding.fix.why for p in proposals)
