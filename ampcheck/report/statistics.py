"""How often each rule has found something."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from ampcheck.finding import Report
from ampcheck.report.line import Line
from ampcheck.report.summary import summary

__all__ = ["json_lines", "lines"]


def lines(report: Report) -> Iterator[Line]:
    """A line a rule and severity, the most frequent first, and the sum."""
    counts = _counts(report)
    digits = len(str(max(counts.values(), default=0)))
    width = max((len(name) for _, name, _ in counts), default=0)
    for (code, name, severity), number in counts.items():
        yield (
            (f"{number:>{digits}}  ", "place"),
            (f"{code}  {name:<{width}}  ", "code"),
            (severity, severity),
        )
    if counts:
        yield ()
    yield from summary(report)


def json_lines(report: Report) -> Iterator[Line]:
    """A list of objects, on one line."""
    rows = [
        {"code": code, "name": name, "severity": severity, "count": number}
        for (code, name, severity), number in _counts(report).items()
    ]
    yield ((json.dumps(rows), ""),)


def _counts(report: Report) -> dict[tuple[str, str, str], int]:
    found = Counter((finding.code, finding.name, finding.severity) for finding in report.findings)
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
