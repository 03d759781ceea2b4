"""The report for programs that read line by line: one JSON object a finding, as in the list of `as_json`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ampcheck.finding import Report
from ampcheck.report.as_json import finding_data
from ampcheck.report.line import Line

__all__ = ["lines"]


def lines(report: Report) -> Iterator[Line]:
    """One line a finding."""
    for finding in report.findings:
        yield ((json.dumps(finding_data(finding, report.notebooks), allow_nan=False), ""),)
