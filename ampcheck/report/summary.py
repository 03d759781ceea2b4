"""The last lines of a report: how much was found, and in how much of what was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from ampcheck.finding import Failure, Outcome, Report
from ampcheck.report.line import Line

__all__ = ["NOWHERE", "count", "summary", "unshown"]

UNANALYSED = ("AMP900", "AMP903")
NOWHERE = "none"
"""The device of a replay that was not tried, since the fault leaves no trace in numbers."""


def count(number: int, thing: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def summary(report: Report) -> Iterator[Line]:
    """Findings by severity, files analysed and not, replays by outcome.

    Only a run that analysed everything it was given is called clean.  The finding of a file that was not analysed is
    counted as that, not as one of those in the files that were.
    """
    missed = {failure.path for failure in report.failures}
    by_severity = Counter(
        finding.severity
        for finding in report.findings
        if finding.code not in UNANALYSED or finding.site.path not in missed
    )
    found = ", ".join(
        count(by_severity[severity], severity)
        for severity in ("error", "warning", "note")
        if by_severity[severity]
    )
    worst = next((s for s in ("error", "warning", "note") if by_severity[s]), "good")
    aside = ", ".join(
        f"{len(left)} {where}"
        for left, where in ((report.silenced, "silenced"), (report.known, "in the baseline"))
        if left
    )
    yield *_sum(found, worst, report.files, len(missed)), (f", {aside}" if aside else "", "")
    replays = [finding.replay for finding in report.findings if finding.replay]
    if replays:
        devices = ", ".join(sorted({replay.device for replay in replays} - {NOWHERE}))
        outcomes = Counter(replay.outcome for replay in replays)
        counts = ", ".join(
            f"{outcomes[outcome]} {outcome}" for outcome in get_args(Outcome) if outcomes[outcome]
        )
        yield ((f"replay on {devices}: {counts}" if devices else f"replay: {counts}", ""),)


def _sum(found: str, worst: str, files: int, missed: int) -> Line:
    """What was found, and in how much; where no file was analysed, that there is nothing to have found it in."""
    if files and not found and not missed:
        return ("Clean", "good"), (f": {count(files, 'file')} analysed", "")
    if files:
        rest = f", {missed} not analysed" if missed else ""
        head = (found, worst) if found else ("Nothing found", "note")
        return head, (f" in {count(files, 'file')} analysed{rest}", "")
    if found:  # in a notebook of which cells are left out, or in the baseline itself
        rest = f"; not analysed in full: {count(missed, 'path')}" if missed else "; no file analysed"
        return (found, worst), (rest, "")
    if missed:
        return ("Nothing analysed", "error"), (f": {count(missed, 'path')} failed", "")
    return (("No file to analyse", "note"),)


def unshown(report: Report) -> tuple[Failure, ...]:
    """The failures that no finding of the report shows: missing paths, and files whose finding is ignored."""
    shown = {finding.site.path for finding in report.findings if finding.code in UNANALYSED}
    return tuple(failure for failure in report.failures if failure.path not in shown)
