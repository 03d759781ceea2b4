"""How a report is shown: `text` and `concise` for people, `as_json` for programs, `progress` while it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ampcheck.finding import Report
from ampcheck.report import as_json, concise, text
from ampcheck.report.line import Line

__all__ = ["FORMATS"]

FORMATS: dict[str, Callable[[Report], Iterable[Line]]] = {
    "text": text.lines,
    "concise": concise.lines,
    "json": as_json.lines,
}
