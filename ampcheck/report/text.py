"""The report for people: each finding with its lines of source, what the gradients carry there, and the way out.

train.py:42:9  AMP101 clip-before-unscale  error
   38 │ scaler.scale(loss).backward()                 gradients × S
   42 │ clip_grad_norm_(model.parameters(), 1.0)      clipped at 1.0 / S
  fix: call scaler.unscale_(optimizer) before the clip
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator

from ampcheck.events import Site
from ampcheck.finding import Finding, Replay, Report
from ampcheck.report.line import Line, printable
from ampcheck.report.story import story
from ampcheck.report.summary import NOWHERE, summary

__all__ = ["lines"]

WIDEST = 72  # of the source column; a longer line is cut, its number is there to look it up
OUTCOMES = {"confirmed": "error", "refuted": "good", "inconclusive": "warning"}


def lines(report: Report) -> Iterator[Line]:
    """The lines of a report: findings and the sum of it."""
    for finding in report.findings:
        yield from _finding(finding)
        yield ()
    yield from summary(report)


def _finding(finding: Finding) -> Iterator[Line]:
    site = finding.site
    possible = ", possible" if finding.verdict == "possible" else ""
    yield (
        (f"{site.path}:{site.line}:{site.column}", "place"),
        (f"  {finding.code} ", "code"),
        (finding.name, "code"),
        (f"  {finding.severity}{possible}", finding.severity),
    )
    yield ((f"  {finding.message}", ""),)
    if finding.condition:
        yield (("  when ", "dim"), (finding.condition, ""))
    yield from _frames(finding)
    if finding.hint:
        yield (("  fix: ", "good"), (finding.hint, ""))
    if finding.replay:
        yield _replay(finding.replay)


def _frames(finding: Finding) -> Iterator[Line]:
    rows = [(step.site, _source(step.site), step.text) for step in story(finding)]
    rows = [row for row in rows if row[1]]
    labels = [
        str(site.line) if site.path == finding.site.path else f"{site.path}:{site.line}"
        for site, _, _ in rows
    ]
    gutter = max(map(len, labels), default=0)
    width = max((len(source) for _, source, text in rows if text), default=0)
    for label, (site, source, text) in zip(labels, rows, strict=True):
        style = "place" if site == finding.site else ""
        yield (
            (f"  {label:>{max(gutter, 3)}} │ ", "dim"),
            (source if not text else f"{source:<{width}}", style),
            (f"   {text}" if text else "", "carries"),
        )


def _source(site: Site) -> str:
    """The first line of a statement; "" where the file cannot be read (any more)."""
    first = printable(linecache.getline(site.path, site.line).strip())
    if not first:
        return ""
    cut = first if len(first) <= WIDEST else first[: WIDEST - 2].rstrip() + " …"
    return cut if site.end_line <= site.line or cut.endswith("…") else f"{cut} …"


def _replay(replay: Replay) -> Line:
    said = f": {replay.text}" if replay.text else ""
    device = f" ({replay.device})" if replay.device != NOWHERE else ""
    return (
        (f"  replay{device}{said} — ", ""),
        (replay.outcome, OUTCOMES.get(replay.outcome, "")),
    )
