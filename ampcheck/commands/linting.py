"""What `check` and `replay` share: the paths to a report, and a report to the screen and an exit code."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from ampcheck import registry
from ampcheck.commands.exits import CLEAN, COULD_NOT, FOUND, CannotDoError, refuse
from ampcheck.commands.standard_input import paths_to_check
from ampcheck.finding import Failure, Finding, Report
from ampcheck.report import FORMATS, STATISTICS
from ampcheck.report.line import plain, show

__all__ = ["conclude", "lint"]

SEVERITIES = ("error", "warning", "note")


def lint(options: Namespace) -> Report:
    """Check the paths that exist; the others are failures of the report."""
    if options.statistics and options.format not in STATISTICS:
        raise CannotDoError(f"--statistics has no form in {options.format}: use {', '.join(STATISTICS)}")
    with paths_to_check(options) as paths:
        if options.since is None:
            return _checked(options, paths)
        from ampcheck.changes import GitError, changes_since

        try:
            changes = changes_since(options.since, paths)
            return changes.touched(_checked(options, paths))
        except GitError as error:
            raise CannotDoError(str(error)) from None


def _checked(options: Namespace, paths: Sequence[str]) -> Report:
    from ampcheck.check import Options, check_paths, python_files
    from ampcheck.report.progress import Progress
    from ampcheck.source import exists

    known = registry.load()
    select, ignore = registry.select(options.select, known), registry.select(options.ignore, known)
    if not (select or {rule.code for rule in known}) - ignore:
        raise registry.UnknownRuleError("no rule is left: --ignore takes away all that --select names")
    chosen = Options(select, ignore, options.possible)
    present = [path for path in paths if exists(path)]
    missing = [Failure(path, "no such file or directory") for path in paths if path not in present]
    missing += [Failure(path, "no Python file found") for path in present if not any(python_files([path]))]
    report = Report()
    if present:
        with Progress("checking", sys.stderr) as progress:
            report = check_paths(present, options=chosen, on_file=progress.advance)
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
    if options.exit_zero or not any(
        _fails(finding, options.fail_on or "warning") for finding in report.findings
    ):
        return CLEAN
    return FOUND


def _show(report: Report, options: Namespace) -> None:
    """Onto the screen or into the file asked for."""
    formats = STATISTICS if options.statistics else FORMATS
    lines = formats[options.format](report)
    if options.output_file is None:
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
    return SEVERITIES.index(finding.severity) <= SEVERITIES.index(least)
