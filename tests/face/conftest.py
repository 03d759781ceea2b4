"""A report to show: one finding with a hand-made witness, and a check that returns what a test wants."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ampcheck.check import python_files
from ampcheck.events import Backward, Clip, Loss, Site, Step, Unit
from ampcheck.finding import Finding, Report, Witness
from ampcheck.settings import Nearest
from tests.face.traces import trace_of

SOURCE = """\
scaler.scale(loss).backward()
if micro_batches_in_this_window_are_complete:
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(
        optimizer
    )
"""


@pytest.fixture
def clipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Finding:
    """AMP101 in `train.py` of the current folder: a scaled gradient is clipped."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SOURCE)
    trace = trace_of(
        Backward(
            site=Site("train.py", 1, 1, 1, 30),
            loss=Loss((Unit(scale=(("scaler", 1),)),)),
            reaches=("optimizer",),
            micro=0,
        ),
        Clip(site=Site("train.py", 3, 5, 3, 60), style="norm", owners=("optimizer",), threshold=1.0),
        Step(site=Site("train.py", 4, 5, 6, 6), optimizer="optimizer", scaler="scaler"),
    )
    return Finding(
        code="AMP101",
        name="clip-before-unscale",
        severity="error",
        verdict="certain",
        site=trace.records[1].event.site,
        message="gradients are clipped while they carry the loss scale",
        condition="use_amp",
        hint="call scaler.unscale_(optimizer) before the clip",
        witness=Witness(trace, 1, (0, 2)),
    )


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Report], list[tuple[list[str], Any]]]:
    """Make `check_paths` return a report; the returned list collects what it was asked."""

    def stand_in(report: Report) -> list[tuple[list[str], Any]]:
        asked: list[tuple[list[str], Any]] = []

        def check_paths(
            paths: Sequence[str],
            *,
            settings: Nearest,
            on_file: Callable[[str], None],
            on_analysed: Any = None,
        ) -> Report:
            asked.append((list(paths), settings.options(paths[0])))
            for path in paths:
                on_file(path)
            return report

        module = ModuleType("ampcheck.check")
        vars(module).update(check_paths=check_paths, python_files=python_files)
        monkeypatch.setitem(sys.modules, "ampcheck.check", module)
        return asked

    return stand_in
