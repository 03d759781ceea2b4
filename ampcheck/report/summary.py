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

    Only a run that analysed everything it was given is called clean.
    """
    by_severity = Counter(finding.severity for finding in report.findings)
    found = ", ".join(
        count(by_severity[severity], severity)
        for severity in ("error", "warning", "note")
        if by_severity[severity]
    )
    worst = next((s for s in ("error", "warning", "note") if by_severity[s]), "good")
    analysed = f"{count(report.files, 'file')} analysed"
    aside = ", ".join(
        f"{len(left)} {where}"
        for left, where in ((report.silenced, "silenced"), (report.known, "in the baseline"))
        if left
    )
    missed = f", {len({failure.path for failure in report.failures})} not analysed" if report.failures else ""
    if not found:
        found, worst = ("Clean", "good") if not missed and report.files else ("Nothing found", "note")
    analysed = f"{analysed}, {aside}" if aside else analysed
    yield (found, worst), (f" in {analysed}{missed}" if found != "Clean" else f": {analysed}", "")
    replays = [finding.replay for finding in report.findings if finding.replay]
    if replays:
        devices = ", ".join(sorted({replay.device for replay in replays} - {NOWHERE}))
        outcomes = Counter(replay.outcome for replay in replays)
        counts = ", ".join(
            f"{outcomes[outcome]} {outcome}" for outcome in get_args(Outcome) if outcomes[outcome]
        )
        yield ((f"replay on {devices}: {counts}" if devices else f"replay: {counts}", ""),)


def unshown(report: Report) -> tuple[Failure, ...]:
    """The failures that no finding of the report shows: missing paths, and files whose finding is ignored."""
    shown = {finding.site.path for finding in report.findings if finding.code in UNANALYSED}
    return tuple(failure for failure in report.failures if failure.path not in shown)
