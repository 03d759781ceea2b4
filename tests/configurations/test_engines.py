"""What a configuration file gives to an engine decides what its loop does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ampcheck.check import Options, check_paths

LOOP = """\
import deepspeed
import torch
import torch.nn.functional as F


def train(model, loader):
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="ds.json")
    for x, y in loader:
        engine.backward(F.mse_loss(engine(x), y))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        engine.step()
"""


@pytest.mark.parametrize(("stage", "ignored"), [(2, True), (1, True), (0, False)])
def test_the_zero_stage_of_a_file_tells_whether_a_clip_finds_gradients(
    tmp_path: Path, stage: int, ignored: bool
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "train.py").write_text(LOOP)
    settings = {"gradient_accumulation_steps": 1, "zero_optimization": {"stage": stage}}
    (tmp_path / "ds.json").write_text(json.dumps(settings))
    found = check_paths([str(tmp_path / "train.py")], options=Options()).findings
    assert (("AMP209", 10) in {(f.code, f.site.line) for f in found}) is ignored


def test_a_loop_that_divides_by_what_the_file_divides_by_divides_twice(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    loop = LOOP.replace(
        "engine.backward(F.mse_loss(engine(x), y))", "engine.backward(F.mse_loss(engine(x), y) / 4)"
    )
    (tmp_path / "train.py").write_text(loop)
    (tmp_path / "ds.json").write_text(json.dumps({"gradient_accumulation_steps": 4}))
    found = check_paths([str(tmp_path / "train.py")], options=Options()).findings
    assert ("AMP306", 9) in {(f.code, f.site.line) for f in found}
