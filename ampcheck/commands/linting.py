"""What `check` and `replay` share: the paths to a report, and a report to the screen and an exit code."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ampcheck.commands.configured import settings_of
from ampcheck.commands.exits import CLEAN, COULD_NOT, FOUND, CannotDoError, refuse
from ampcheck.commands.knowing import without_known
from ampcheck.commands.standard_input import paths_to_check
from ampcheck.finding import Failure, Finding, Report
from ampcheck.report import FORMATS, STATISTICS
from ampcheck.report.line import plain, show

if TYPE_CHECKING:
    from ampcheck.check import Analysed

__all__ = ["STDOUT", "conclude", "lint"]

STDOUT = "-"
"""The file that is standard output."""

SEVERITIES = ("error", "warning", "note")


def lint(options: Namespace, on_analysed: Callable[[Analysed], None] | None = None) -> Report:
    """Check the paths that exist; the others are failures of the report.

    `on_analysed` gets what was seen of each file that holds a word of training.

    What the command line leaves open and concerns the whole run, the settings of the working directory fill in.
    """
    asked = vars(options)  # not every command has every option
    if asked.get("statistics") and options.format not in STATISTICS:
        raise CannotDoError(f"--statistics has no form in {options.format}: use {', '.join(STATISTICS)}")
    paths = paths_to_check(options)
    if asked.get("since") is None:
        return _checked(options, paths, on_analysed)
    from ampcheck.changes import GitError, changes_since

    try:
        changes = changes_since(options.since, paths)
        return changes.touched(_checked(options, paths, on_analysed))
    except GitError as error:
        raise CannotDoError(str(error)) from None


def _checked(
    options: Namespace, paths: Sequence[str], on_analysed: Callable[[Analysed], None] | None
) -> Report:
    from ampcheck.check import check_paths, python_files
    from ampcheck.report.progress import Progress
    from ampcheck.source import exists

    nearest = settings_of(options)
    present = [path for path in paths if exists(path)]
    missing = [Failure(path, "no such file or directory") for path in paths if path not in present]
    missing += [Failure(path, "no Python file found") for path in present if not any(python_files([path]))]
    report = Report()
    if present:
        with Progress("checking", sys.stderr) as progress:
            report = check_paths(present, settings=nearest, on_file=progress.advance, on_analysed=on_analysed)
    if not getattr(options, "write_baseline", False):
        report = without_known(report, options, nearest, present)
    return replace(report, failures=(*report.failures, *missing))


def conclude(report: Report, options: Namespace) -> int:
    """Show the report and decide the exit code.

    What was asked for and not analysed exits 2 even with `--exit-zero`, which is about findings.
    """
    from ampcheck.report.summary import unshown

    _show(report, options)
    unanalysed = unshown(report)
    for failure in unanalysed:
        refuse(f"{failure.path}: {failure.message}")
    if unanalysed:
        return COULD_NOT
    if options.exit_zero or not any(_fails(finding, options.fail_on) for finding in report.findings):
        return CLEAN
    return FOUND


def _show(report: Report, options: Namespace) -> None:
    """Onto the screen or into the file asked for."""
    formats = STATISTICS if options.statistics else FORMATS
    lines = formats[options.format](report)
    if options.output_file in (None, STDOUT):
        show(lines, sys.stdout)
        return
    try:
        with open(options.output_file, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(plain(line) + "\n" for line in lines)
    except OSError as error:
        raise CannotDoError(f"{options.output_file}: cannot be written: {error.strerror or error}") from None


def _fails(finding: Finding, least: str) -> bool:
    """Whether a finding is bad enough to exit 1; what a replay has refuted never is."""
    if finding.replay is not None and finding.replay.outcome == "refuted":
        return False
    return least != "never" and SEVERITIES.index(finding.severity) <= SEVERITIES.index(least)
