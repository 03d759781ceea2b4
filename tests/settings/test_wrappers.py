"""A project's own wrappers: with their names, the analysis sees what it cannot see without."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampcheck.check import check_paths
from ampcheck.settings import Nearest

SCALER = """\
import torch
from company.amp import LossScaler

guard = LossScaler()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x, y in loader:
    guard.scale(criterion(model(x), y)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    guard.step(optimizer)
    guard.update()
    optimizer.zero_grad()
"""
OPTIMIZER = """\
import torch
import company.training

stepper = company.training.Stepper(model, 0.1)
for x, y in loader:
    (criterion(model(x), y) / accumulation_steps).backward()
    stepper.step()
    stepper.zero_grad()
"""
AROUND = """\
import torch
from company.optim import Zero

scaler = torch.amp.GradScaler("cuda")
inner = torch.optim.SGD(model.parameters(), 0.1)
outer = Zero(inner)
for x, y in loader:
    scaler.scale(criterion(model(x), y)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(outer)
    scaler.update()
    outer.zero_grad()
"""
ENGINE = """\
import torch
from company.launch import Engine

def train(model, loader):
    engine = Engine(gradient_accumulation_steps=4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer, loader = engine.prepare(model, optimizer, loader)
    for x, y in loader:
        with engine.accumulate(model):
            engine.backward(criterion(model(x), y) / 4)
            optimizer.step()
            optimizer.zero_grad()
"""
WINDOW = """\
import torch

optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x, y in loader:
    (criterion(model(x), y) / args.virtual_batches).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SUBSCRIPTED = WINDOW.replace("args.virtual_batches", 'args["virtual_batches"]')


def codes(folder: Path, text: str, settings: str = "") -> list[tuple[str, int]]:
    (folder / "train.py").write_text(text)
    (folder / "ampcheck.toml").write_text(settings)
    report = check_paths([str(folder / "train.py")], settings=Nearest())
    assert not report.failures
    return [(finding.code, finding.site.line) for finding in report.findings]


@pytest.mark.parametrize(
    ("text", "settings", "found"),
    [
        (SCALER, 'scalers = ["company.amp.LossScaler"]', ("AMP101", 8)),
        (SCALER, 'scalers = ["LossScaler"]', ("AMP101", 8)),
        (OPTIMIZER, 'optimizers = ["company.training.Stepper"]', ("AMP301", 7)),
        (AROUND, 'optimizers = ["Zero"]', ("AMP101", 9)),
        (ENGINE, 'accumulators = ["company.launch.Engine"]', ("AMP306", 10)),
        (WINDOW, 'windows = ["virtual_batches"]', ("AMP301", 6)),
        (SUBSCRIPTED, 'windows = ["virtual_batches"]', ("AMP301", 6)),
    ],
)  # fmt: skip
def test_a_name_tells_what_the_code_does_not(
    tmp_path: Path, text: str, settings: str, found: tuple[str, int]
) -> None:
    assert codes(tmp_path, text) == []
    assert codes(tmp_path, text, settings) == [found]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (SCALER, 'scalers = ["other.amp.LossScaler", "Scaler"]'),
        (AROUND.replace("    torch.nn", "    scaler.unscale_(outer)\n    torch.nn"), 'optimizers = ["Zero"]'),
        (WINDOW, 'windows = ["batches"]'),
    ],
)
def test_other_names_and_right_loops_stay_quiet(tmp_path: Path, text: str, settings: str) -> None:
    assert codes(tmp_path, text, settings) == []


def test_a_scaler_that_the_project_defines_itself(tmp_path: Path) -> None:
    """Its class can be read, but what it does is in a library that cannot."""
    (tmp_path / "company").mkdir()
    (tmp_path / "company" / "amp.py").write_text("import ours\n\n\nclass LossScaler(ours.Base):\n    pass\n")
    assert codes(tmp_path, SCALER, 'scalers = ["company.amp.LossScaler"]') == [("AMP101", 8)]


def test_imports_are_looked_for_in_the_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lib" / "python" / "steps"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import torch\n\n\ndef clip(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    )
    loop = SCALER.replace("from company.amp import LossScaler", "from steps import clip")
    loop = loop.replace("guard = LossScaler()", 'guard = torch.amp.GradScaler("cuda")')
    loop = loop.replace("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "clip(model)")
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "train.py").write_text(loop)
    (tmp_path / "ampcheck.toml").write_text("")

    def found(path: str) -> list[tuple[str, int]]:
        return [(f.code, f.site.line) for f in check_paths([path], settings=Nearest()).findings]

    assert found(str(scripts)) == []
    (tmp_path / "ampcheck.toml").write_text('roots = ["lib/python"]')
    assert found(str(scripts)) == [("AMP101", 8)]
    monkeypatch.chdir(scripts)
    assert found("train.py") == [("AMP101", 8)]
