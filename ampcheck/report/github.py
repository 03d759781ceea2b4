"""GitHub's workflow commands: in the log of an Action, each becomes an annotation of the changed file.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ampcheck.finding import Failure, Finding, Report
from ampcheck.report.line import Line
from ampcheck.report.message import message, remarks
from ampcheck.report.place import place
from ampcheck.report.region import Region, region, relative
from ampcheck.report.summary import summary, unshown

__all__ = ["lines"]

LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def lines(report: Report) -> Iterator[Line]:
    """One command a finding and a path that was not analysed; the sum, for those who read the log."""
    for finding in report.findings:
        at = region(finding.site, report.notebooks)
        where = place(finding.site, report.notebooks)
        said = [f"{where}: {finding.code} {message(finding)}", *remarks(finding)]
        yield _command(LEVELS[finding.severity], _properties(finding, at), "\n".join(said))
    for failure in unshown(report):
        yield _command("error", _about(failure), f"{failure.path}: {failure.message}")
    yield from summary(report)


def _properties(finding: Finding, at: Region) -> dict[str, str]:
    found = {
        "title": f"{finding.code} {finding.name}",
        "file": _path(finding.site.path),
        "line": str(at.line),
        "endLine": str(at.end_line),
    }
    if at.column and at.line == at.end_line:  # columns of several lines are refused
        found |= {"col": str(at.column), "endColumn": str(at.end_column)}
    return found


def _about(failure: Failure) -> dict[str, str]:
    return {"title": "not analysed", "file": _path(failure.path)}


def _path(path: str) -> str:
    """Annotations are matched by the path from the repository's root."""
    return relative(path, os.environ.get("GITHUB_WORKSPACE") or os.getcwd())


def _command(level: str, properties: dict[str, str], text: str) -> Line:
    spelled = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return ((f"::{level} {spelled}::{_data(text)}", ""),)


def _data(text: str) -> str:
    """As the runner reads it back: it takes these escapes and no others."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
