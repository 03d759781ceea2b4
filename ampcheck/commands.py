"""The commands behind `ampcheck.cli`: each takes the parsed options and returns an exit code."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from dataclasses import replace
from typing import Final

from ampcheck import registry
from ampcheck.finding import Failure, Finding, Report
from ampcheck.report.line import is_coloured, show

__all__ = ["CLEAN", "COULD_NOT", "FOUND", "check", "explain", "new", "refuse", "replay", "rules"]

CLEAN: Final = 0
FOUND: Final = 1
COULD_NOT: Final = 2


def refuse(message: str) -> int:
    """Say in one line on standard error what could not be done."""
    sys.stdout.flush()
    print(f"ampcheck: {message}", file=sys.stderr)
    return COULD_NOT


def check(options: Namespace) -> int:
    """`ampcheck check`: lint."""
    return _conclude(_lint(options), options)


def replay(options: Namespace) -> int:
    """`ampcheck replay`: lint, then run each finding's trace on tensors."""
    from ampcheck.replay import ReplayUnavailable
    from ampcheck.replay import replay as replay_all
    from ampcheck.report.progress import Progress

    report = _lint(options)
    if not report.findings:
        return _conclude(report, options)
    try:
        with Progress("replaying", sys.stderr, total=len(report.findings), patience=0) as progress:
            findings = replay_all(
                report.findings,
                device=options.device,
                on_result=lambda finding: progress.advance(finding.site.path),
            )
    except ReplayUnavailable as error:
        _conclude(report, options)
        return refuse(f"not replayed: {error}")
    return _conclude(replace(report, findings=tuple(map(_settled, findings))), options)


def explain(options: Namespace) -> int:
    """`ampcheck explain`: the page of one rule."""
    from ampcheck import pages

    page = pages.page(registry.find(options.rule, registry.load()))
    if is_coloured(sys.stdout):
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(page))
    else:
        print(page, end="")
    return CLEAN


def rules(_: Namespace) -> int:
    """`ampcheck rules`: one line a rule."""
    from ampcheck import pages

    known = registry.load()
    width = max((len(rule.name) for rule in known), default=0)
    show(
        (
            (
                (f"{rule.code}  ", "code"),
                (f"{rule.name:<{width}}  ", ""),
                (f"{rule.severity:<7}  ", rule.severity),
                (pages.summary(rule), "dim"),
            )
            for rule in known
        ),
        sys.stdout,
    )
    return CLEAN


def new(options: Namespace) -> int:
    """`ampcheck new`: the files of a new rule."""
    from ampcheck import scaffold

    try:
        made = scaffold.new(options.name, code=options.code, series=options.series, severity=options.severity)
    except scaffold.ScaffoldError as error:
        return refuse(str(error))
    for path in made:
        print(f"made {path}")
    print("next: its fixtures, then the rule, then `python -m ampcheck.pages` (docs/adding-a-rule.md)")
    return CLEAN


def _lint(options: Namespace) -> Report:
    """Check the paths that exist; the others are failures of the report."""
    from ampcheck.check import Options, check_paths, python_files
    from ampcheck.report.progress import Progress

    known = registry.load()
    select, ignore = registry.select(options.select, known), registry.select(options.ignore, known)
    if not (select or {rule.code for rule in known}) - ignore:
        raise registry.UnknownRuleError("no rule is left: --ignore takes away all that --select names")
    chosen = Options(select, ignore, options.possible)
    present = [path for path in options.paths if os.path.exists(path)]
    missing = [Failure(path, "no such file or directory") for path in options.paths if path not in present]
    missing += [Failure(path, "no Python file found") for path in present if not any(python_files([path]))]
    report = Report()
    if present:
        with Progress("checking", sys.stderr) as progress:
            report = check_paths(present, options=chosen, on_file=progress.advance)
    return replace(report, failures=(*report.failures, *missing))


def _settled(finding: Finding) -> Finding:
    """A refuted finding fails no run: it becomes a note."""
    refuted = finding.replay is not None and finding.replay.outcome == "refuted"
    return replace(finding, severity="note") if refuted else finding


def _conclude(report: Report, options: Namespace) -> int:
    """Show the report and decide the exit code.

    What was asked for and not analysed exits 2 even with `--exit-zero`, which is about findings.
    """
    from ampcheck.report import FORMATS
    from ampcheck.report.summary import unshown

    show(FORMATS[options.format](report), sys.stdout)
    unanalysed = unshown(report)
    for failure in unanalysed:
        refuse(f"{failure.path}: {failure.message}")
    if unanalysed:
        return COULD_NOT
    if options.exit_zero or all(finding.severity == "note" for finding in report.findings):
        return CLEAN
    return FOUND
