"""The report for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from ampcheck.finding import Failure, Finding, Replay, Report
from ampcheck.report import FORMATS
from ampcheck.report.line import plain


def parsed(report: Report) -> dict[str, Any]:
    (line,) = FORMATS["json"](report)
    return json.loads(plain(line))  # type: ignore[no-any-return]


def test_the_shape_is_exact(clipped: Finding) -> None:
    assert parsed(Report((clipped,), (Failure("x.py", "why"),), files=1)) == {
        "version": 1,
        "findings": [
            {
                "code": "AMP101",
                "name": "clip-before-unscale",
                "severity": "error",
                "verdict": "certain",
                "path": "train.py",
                "line": 3,
                "column": 5,
                "end_line": 3,
                "end_column": 60,
                "message": "gradients are clipped while they carry the loss scale",
                "condition": "use_amp",
                "trace": [
                    {"line": 1, "column": 1, "path": "train.py", "text": "gradients × S"},
                    {"line": 3, "column": 5, "path": "train.py", "text": "clipped at 1.0 / S"},
                    {"line": 4, "column": 5, "path": "train.py", "text": "unscaled here, after the clip"},
                ],
                "replay": None,
                "fix": None,
            }
        ],
        "errors": [{"path": "x.py", "message": "why"}],
        "files": 1,
    }


def test_figures_that_are_not_finite_stay_json(clipped: Finding) -> None:
    measured = Replay("confirmed", "cpu", {"clip-norm": float("inf"), "steps": 2}, "overflow")
    (finding,) = parsed(Report((replace(clipped, replay=measured),)))["findings"]
    assert finding["replay"] == {
        "outcome": "confirmed",
        "device": "cpu",
        "figures": {"clip-norm": "inf", "steps": 2},
        "text": "overflow",
    }
