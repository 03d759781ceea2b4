"""The report for people: each finding with its lines of source, what the gradients carry there, and the way out.

train.py:42:9  AMP101 clip-before-unscale  error
   38 │ scaler.scale(loss).backward()                 gradients × S
   42 │ clip_grad_norm_(model.parameters(), 1.0)      clipped at 1.0 / S
  fix: call scaler.unscale_(optimizer) before the clip
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ampcheck.events import Site
from ampcheck.finding import Finding, Report
from ampcheck.notebook import Cells
from ampcheck.report.line import Line
from ampcheck.report.message import replayed
from ampcheck.report.place import located, place, source_line
from ampcheck.report.story import story
from ampcheck.report.summary import summary

__all__ = ["lines", "told"]


def lines(report: Report) -> Iterator[Line]:
    """The lines of a report: findings and the sum of it."""
    for finding in report.findings:
        yield from told(finding, report.notebooks)
        yield ()
    yield from summary(report)


def told(finding: Finding, notebooks: Mapping[str, Cells]) -> Iterator[Line]:
    """All there is to say of one finding."""
    possible = ", possible" if finding.verdict == "possible" else ""
    yield (
        (place(finding.site, notebooks), "place"),
        (f"  {finding.code} ", "code"),
        (finding.name, "code"),
        (f"  {finding.severity}{possible}", finding.severity),
    )
    yield ((f"  {finding.message}", ""),)
    if finding.condition:
        yield (("  when ", "dim"), (finding.condition, ""))
    yield from _frames(finding, notebooks)
    if finding.fix:
        why = f": {finding.fix.why}" if finding.fix.why else ""
        yield (("  fix: ", "good"), (finding.fix.title, ""), (f" ({finding.fix.applicability}{why})", "dim"))
    elif finding.hint:
        yield (("  fix: ", "good"), (finding.hint, ""))
    if finding.replay:
        yield ("  ", ""), *replayed(finding.replay)


def _frames(finding: Finding, notebooks: Mapping[str, Cells]) -> Iterator[Line]:
    rows = [(step.site, source_line(step.site, notebooks), step.text) for step in story(finding)]
    rows = [row for row in rows if row[1]]
    labels = [_label(site, finding.site, notebooks) for site, _, _ in rows]
    gutter = max(map(len, labels), default=0)
    width = max((len(source) for _, source, text in rows if text), default=0)
    for label, (site, source, text) in zip(labels, rows, strict=True):
        style = "place" if site == finding.site else ""
        yield (
            (f"  {label:>{max(gutter, 3)}} │ ", "dim"),
            (source if not text else f"{source:<{width}}", style),
            (f"   {text}" if text else "", "carries"),
        )


def _label(site: Site, found: Site, notebooks: Mapping[str, Cells]) -> str:
    """The line; with its cell or path where that is another than the finding's."""
    if site.path != found.path:
        return place(site, notebooks, column=False)
    at = located(site, notebooks)
    elsewhere = at.cell != located(found, notebooks).cell
    return f"cell {at.cell}:{at.line}" if elsewhere else str(at.line)
