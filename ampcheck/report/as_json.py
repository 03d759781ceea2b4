"""The report for programs: one JSON object, whose shape `docs/index.md` describes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ampcheck.events import Site
from ampcheck.finding import Finding, Fix, Replay, Report
from ampcheck.notebook import Cells
from ampcheck.report.line import Line
from ampcheck.report.place import located
from ampcheck.report.story import story

__all__ = ["finding_data", "indented", "lines", "plain_data", "replay_data"]

VERSION = 1


def lines(report: Report) -> Iterator[Line]:
    """The whole object on one line."""
    yield ((json.dumps(plain_data(report), allow_nan=False), ""),)


def plain_data(report: Report) -> dict[str, Any]:
    """The report as dictionaries, lists, strings and numbers."""
    return {
        "version": VERSION,
        "findings": [finding_data(finding, report.notebooks) for finding in report.findings],
        "errors": [{"path": failure.path, "message": failure.message} for failure in report.failures],
        "files": report.files,
    }


def indented(data: Any) -> Iterator[Line]:
    """JSON over several lines, in ASCII, for files that people look into as well."""
    for line in json.dumps(data, indent=2, allow_nan=False).splitlines():
        yield ((line, ""),)


def finding_data(finding: Finding, notebooks: Mapping[str, Cells]) -> dict[str, Any]:
    """One finding."""
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "verdict": finding.verdict,
        **_place(finding.site, notebooks),
        "message": finding.message,
        "condition": finding.condition,
        "trace": [{**_place(at, notebooks, end=False), "text": text} for at, text in story(finding)],
        "replay": None if finding.replay is None else replay_data(finding.replay),
        "fix": None if finding.fix is None else _fix(finding.fix, notebooks),
    }


def _place(site: Site, notebooks: Mapping[str, Cells], *, end: bool = True) -> dict[str, str | int]:
    """Path, line and column; in a notebook the cell too, and lines within it."""
    at = located(site, notebooks)
    place: dict[str, str | int] = {"path": site.path, "line": at.line, "column": at.column}
    if end:
        place |= {"end_line": at.end_line, "end_column": at.end_column}
    return place | ({"cell": at.cell} if at.cell else {})


def _fix(fix: Fix, notebooks: Mapping[str, Cells]) -> dict[str, Any]:
    edits = [{**_place(edit.site, notebooks), "text": edit.text} for edit in fix.edits]
    return {"title": fix.title, "applicability": fix.applicability, "why": fix.why, "edits": edits}


def replay_data(replay: Replay) -> dict[str, Any]:
    """What a replay measured; a figure that is not finite is a string."""
    # JSON knows no infinity, and an overflow's norm is one.
    figures = {
        name: str(figure) if isinstance(figure, float) and not math.isfinite(figure) else figure
        for name, figure in replay.figures.items()
    }
    return {"outcome": replay.outcome, "device": replay.device, "figures": figures, "text": replay.text}
