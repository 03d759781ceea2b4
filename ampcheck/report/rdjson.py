"""reviewdog's diagnostic format, which it turns into review comments on many services.

https://github.com/reviewdog/reviewdog/tree/master/proto/rdf
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from typing import Any

from ampcheck.events import Site
from ampcheck.finding import Finding, Report
from ampcheck.report.as_json import indented
from ampcheck.report.line import Line
from ampcheck.report.links import HOME, rule_url
from ampcheck.report.message import message, remarks
from ampcheck.report.region import cell_prefix, region

__all__ = ["lines"]

SEVERITIES = {"error": "ERROR", "warning": "WARNING", "note": "INFO"}


def lines(report: Report) -> Iterator[Line]:
    """The whole result, in ASCII."""
    yield from indented(
        {
            "source": {"name": "ampcheck", "url": HOME},
            "diagnostics": [_diagnostic(finding, report) for finding in report.findings],
        }
    )


def _diagnostic(finding: Finding, report: Report) -> dict[str, Any]:
    code = {"value": finding.code}
    if url := rule_url(finding.code):
        code["url"] = url
    said = [cell_prefix(finding.site, report.notebooks) + message(finding), *remarks(finding)]
    found: dict[str, Any] = {
        "message": "\n".join(said),
        "location": {"path": finding.site.path, "range": _range(finding.site, report)},
        "severity": SEVERITIES[finding.severity],
        "code": code,
    }
    if suggestions := _suggestions(finding, report):
        found["suggestions"] = suggestions
    return found


def _suggestions(finding: Finding, report: Report) -> list[dict[str, Any]]:
    """The fix, where reviewdog can offer it: one edit of the file and lines that are commented."""
    edits = finding.fix.edits if finding.fix is not None else ()
    if len(edits) != 1 or edits[0].site.path != finding.site.path or finding.site.path in report.notebooks:
        return []
    return [{"range": _range(edits[0].site, report), "text": edits[0].text}]


def _range(site: Site, report: Report) -> dict[str, dict[str, int]]:
    at = region(site, report.notebooks)
    if not at.column:
        return {"start": {"line": at.line}, "end": {"line": at.end_line}}
    path = site.path
    return {
        "start": {"line": at.line, "column": _in_bytes(path, at.line, at.column)},
        "end": {"line": at.end_line, "column": _in_bytes(path, at.end_line, at.end_column)},
    }


def _in_bytes(path: str, line: int, column: int) -> int:
    """The column, which reviewdog counts in bytes of UTF-8."""
    before = linecache.getline(path, line)[: column - 1]
    return len(before.encode("utf-8", "surrogateescape")) + column - len(before)
