"""`ampcheck replay`: lint, then run each finding's trace on tensors."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace

from ampcheck.commands.exits import refuse
from ampcheck.commands.linting import conclude, lint
from ampcheck.finding import Finding, Report

__all__ = ["replayed", "run"]


def run(options: Namespace) -> int:
    """Lint, then replay; without torch the findings are shown all the same."""
    report, refused = replayed(lint(options), options)
    code = conclude(report, options)
    return refuse(f"not replayed: {refused}") if refused else code


def replayed(report: Report, options: Namespace) -> tuple[Report, str]:
    """The report with a replay of each finding, or as it was and why there is none."""
    from ampcheck.replay import ReplayUnavailable
    from ampcheck.replay import replay as replay_all
    from ampcheck.report.progress import Progress

    if not report.findings:
        return report, ""
    try:
        with Progress("replaying", sys.stderr, total=len(report.findings), patience=0) as progress:
            findings = replay_all(
                report.findings,
                device=options.device,
                on_result=lambda finding: progress.advance(finding.site.path),
            )
    except ReplayUnavailable as error:
        return report, str(error)
    return replace(report, findings=tuple(map(_settled, findings))), ""


def _settled(finding: Finding) -> Finding:
    """A refuted finding fails no run: it becomes a note."""
    refuted = finding.replay is not None and finding.replay.outcome == "refuted"
    return replace(finding, severity="note") if refuted else finding
