"""A function that trains and is called once for each of several data sets: its loop, optimizer and scaler are new."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampcheck.analysis import traces_of
from ampcheck.check import check_paths
from ampcheck.fixes import propose
from ampcheck.fixes.proof import prove
from ampcheck.replay import compare
from ampcheck.replay.restarts import told_apart

SCRIPT = """
import torch
from torch import nn


def finetune(name, model, loader, epochs):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        for i, (x, y) in enumerate(loader):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.cross_entropy(model(x), y) / 2
            scaler.scale(loss).backward()
            if (i + 1) % 2 == 0 or i + 1 == len(loader):
                {unscale}nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()


if __name__ == "__main__":
    model = nn.Linear(2, 2)
    for name in ["Cars", "DTD"]:
        finetune(name, model, load(name), 10)
"""


@pytest.fixture
def script(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    (tmp_path / "train.py").write_text(SCRIPT.format(unscale=request.param))
    return str(tmp_path / "train.py")


RIGHT, EARLY = "scaler.unscale_(optimizer); ", ""


@pytest.mark.parametrize("script", [RIGHT], indirect=True)
def test_a_right_loop_is_right_in_every_call(script: str) -> None:
    traces = traces_of(script)
    assert {len({r.iteration[0] for r in t.records if r.iteration}) for t in traces} == {2}
    assert {len({r.iteration[0] for r in told_apart(t).records if r.iteration}) for t in traces} == {4}
    assert all(found == {} for found in compare(traces, "cpu"))


@pytest.mark.parametrize("script", [EARLY], indirect=True)
def test_its_steps_are_not_lost(script: str) -> None:
    """Two optimizers built in one place are one that is built anew, if the first has stepped."""
    (trace,) = traces_of(script)
    (deviations,) = compare([trace], "cpu")
    assert "gradient" in deviations
    assert not {"steps", "windows", "exception", "replay"} & deviations.keys()


@pytest.mark.parametrize("script", [EARLY], indirect=True)
def test_its_fix_is_proven(script: str) -> None:
    (proven,) = prove(propose(check_paths([script]).findings))
    assert proven.finding.code == "AMP101"
    assert proven.finding.fix is not None
    assert proven.finding.fix.applicability == "safe"
