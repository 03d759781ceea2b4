"""The report with one line a finding, as editors and grep like it."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.finding import Report
from ampcheck.report.line import Line
from ampcheck.report.message import message
from ampcheck.report.place import place
from ampcheck.report.summary import summary

__all__ = ["lines"]


def lines(report: Report) -> Iterator[Line]:
    """``path:line:column: CODE name severity: message``, and the sum; in a notebook ``path:cell 3:line:column``."""
    for finding in report.findings:
        outcome = f" [{finding.replay.outcome}]" if finding.replay else ""
        possible = ", possible" if finding.verdict == "possible" else ""
        yield (
            (f"{place(finding.site, report.notebooks)}: ", "place"),
            (f"{finding.code} {finding.name} ", "code"),
            (f"{finding.severity}{possible}", finding.severity),
            (f": {message(finding)}{outcome}", ""),
        )
    yield from summary(report)
