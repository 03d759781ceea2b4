"""How a report is shown: for people (`text`, `concise`), for programs, and for the services that show findings in CI.

A format is a module with `lines`; it is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import cast

from ampcheck.finding import Report
from ampcheck.report.line import Line

__all__ = ["FORMATS", "STATISTICS"]

Format = Callable[[Report], Iterable[Line]]


def _lines(module: str, name: str, report: Report) -> Iterable[Line]:
    return cast(Format, getattr(import_module(f"ampcheck.report.{module}"), name))(report)


FORMATS: dict[str, Format] = {
    name: partial(_lines, module, "lines")
    for name, module in {
        "text": "text",
        "concise": "concise",
        "json": "as_json",
        "json-lines": "json_lines",
        "sarif": "sarif",
        "github": "github",
        "gitlab": "gitlab",
        "junit": "junit",
        "rdjson": "rdjson",
    }.items()
}
"""Findings, by the name of the format."""

STATISTICS: dict[str, Format] = {
    "text": partial(_lines, "statistics", "lines"),
    "concise": partial(_lines, "statistics", "lines"),
    "json": partial(_lines, "statistics", "json_lines"),
}
"""Counts by rule instead of the findings, in the formats that have a place for them."""
