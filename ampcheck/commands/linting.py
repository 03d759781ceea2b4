"""What `check` and `replay` share: the paths to a report, and a report to the screen and an exit code."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ampcheck import registry
from ampcheck.commands.exits import CLEAN, COULD_NOT, FOUND, refuse
from ampcheck.finding import Failure, Report
from ampcheck.report.line import show

if TYPE_CHECKING:
    from ampcheck.check import Analysed

__all__ = ["conclude", "lint"]


def lint(options: Namespace, on_analysed: Callable[[Analysed], None] | None = None) -> Report:
    """Check the paths that exist; the others are failures of the report.

    `on_analysed` gets what was seen of each file that holds a word of training.
    """
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
            report = check_paths(present, options=chosen, on_file=progress.advance, on_analysed=on_analysed)
    return replace(report, failures=(*report.failures, *missing))


def conclude(report: Report, options: Namespace) -> int:
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
