"""GitLab's code quality report: an array of issues, shown in the merge request.

https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ampcheck.finding import Finding, Report
from ampcheck.fingerprint import fingerprints
from ampcheck.report.as_json import indented
from ampcheck.report.line import Line
from ampcheck.report.message import message
from ampcheck.report.region import cell_prefix, region, relative

__all__ = ["lines"]

SEVERITIES = {"error": "major", "warning": "minor", "note": "info"}


def lines(report: Report) -> Iterator[Line]:
    """The array; an empty one says that nothing was found."""
    digests = fingerprints(report)
    yield from indented([_issue(*pair, report) for pair in zip(report.findings, digests, strict=True)])


def _issue(finding: Finding, fingerprint: str, report: Report) -> dict[str, Any]:
    at = region(finding.site, report.notebooks)
    prefix = cell_prefix(finding.site, report.notebooks)
    return {
        "description": f"{finding.code} {finding.name}: {prefix}{message(finding)}",
        "check_name": finding.name,
        "fingerprint": fingerprint,
        "severity": SEVERITIES[finding.severity],
        "location": {
            "path": relative(finding.site.path, os.environ.get("CI_PROJECT_DIR") or os.getcwd()),
            "lines": {"begin": at.line, "end": at.end_line},
        },
    }
