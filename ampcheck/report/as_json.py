"""The report for programs: one JSON object, whose shape `docs/index.md` describes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from ampcheck.finding import Finding, Replay, Report
from ampcheck.report.line import Line
from ampcheck.report.story import story

__all__ = ["lines", "plain_data"]

VERSION = 1


def lines(report: Report) -> Iterator[Line]:
    """The whole object on one line."""
    yield ((json.dumps(plain_data(report), allow_nan=False), ""),)


def plain_data(report: Report) -> dict[str, Any]:
    """The report as dictionaries, lists, strings and numbers."""
    return {
        "version": VERSION,
        "findings": [_finding(finding) for finding in report.findings],
        "errors": [{"path": failure.path, "message": failure.message} for failure in report.failures],
        "files": report.files,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    site = finding.site
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "verdict": finding.verdict,
        "path": site.path,
        "line": site.line,
        "column": site.column,
        "end_line": site.end_line,
        "end_column": site.end_column,
        "message": finding.message,
        "condition": finding.condition,
        "trace": [
            {"line": at.line, "column": at.column, "path": at.path, "text": text}
            for at, text in story(finding)
        ],
        "replay": None if finding.replay is None else _replay(finding.replay),
        "fix": None,
    }


def _replay(replay: Replay) -> dict[str, Any]:
    # JSON knows no infinity, and an overflow's norm is one.
    figures = {
        name: str(figure) if isinstance(figure, float) and not math.isfinite(figure) else figure
        for name, figure in replay.figures.items()
    }
    return {"outcome": replay.outcome, "device": replay.device, "figures": figures, "text": replay.text}
