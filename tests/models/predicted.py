"""What a library model predicts: the gradients that each optimizer steps on, worked out from the model's trace.

The probe's loss for batch k is ``<p, g_k>``, so that the gradient of a micro-batch *is* g_k and a step sees a sum of
them, each with the factors of its unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ampcheck import events as ev
from ampcheck.check import traces_of
from ampcheck.trace import Trace

__all__ = ["BATCHES", "SCALE", "Predicted", "predict", "same"]

SCALE = 8.0
# Seven batches an epoch: two windows of three and a tail; without accidental ratios.
BATCHES = [(1.0, 0.5), (2.25, -1.0), (0.5, 3.0), (4.0, 1.5), (-1.25, 2.0), (3.5, 0.25), (0.75, -2.5)]


@dataclass(frozen=True)
class Predicted:
    """By optimizer the gradients at each step; by scheduler how often it steps; what torch refuses."""

    gradients: dict[str, list[tuple[float, float]]]
    schedule: dict[str, int]
    refused: list[str]


def predict(source: str, tmp_path: Path, window: int = 3, **options: bool) -> Predicted:
    """What the trace of a program says, in the configuration in which the options hold that contain these words."""
    path = tmp_path / "program.py"
    path.write_text(source)
    trace = next(t for t in traces_of(str(path)) if t.records and _agrees(t, options))
    gradients: dict[str, list[tuple[float, float]]] = {}
    schedule: dict[str, int] = {}
    for record in trace.records:
        if isinstance(record.event, ev.Step) and not record.refused:
            optimizer = record.event.optimizer
            held = record.after.buffer(optimizer).contributions
            parts = [(BATCHES[c.micro % len(BATCHES)], _factor(c.unit, window)) for c in held]
            total = (sum(g[0] * f for g, f in parts), sum(g[1] * f for g, f in parts))
            gradients.setdefault(optimizer, []).append(total)
        elif isinstance(record.event, ev.ScheduleStep):
            schedule[record.event.scheduler] = schedule.get(record.event.scheduler, 0) + 1
    return Predicted(gradients, schedule, [r.refused for r in trace.records if r.refused])


def _agrees(trace: Trace, options: dict[str, bool]) -> bool:
    if any(g.varying for g in trace.choices):
        return False
    words = {g.text: g.holds for g in trace.choices}
    return all(holds == wanted for w, wanted in options.items() for t, holds in words.items() if w in t)


def _factor(unit: ev.Unit, window: int) -> float:
    exponent = sum(e for _, e in unit.scale)
    return float(window**unit.window * SCALE**exponent)


def same(found: list[tuple[float, float]], expected: list[tuple[float, float]]) -> None:
    """Assert that two lists of gradients agree."""
    assert len(found) == len(expected), (found, expected)
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-5)
