"""What `check` and `replay` share: the paths to a report, and a report to the screen and an exit code."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from dataclasses import replace

from ampcheck import registry
from ampcheck.commands.exits import CLEAN, COULD_NOT, FOUND, refuse
from ampcheck.finding import Failure, Report
from ampcheck.report.line import show
from ampcheck.settings import Nearest, Settings

__all__ = ["conclude", "lint"]


def lint(options: Namespace) -> Report:
    """Check the paths that exist; the others are failures of the report.

    What the command line leaves open and concerns the whole run, the settings of the working directory fill in.
    """
    from ampcheck.check import check_paths, python_files
    from ampcheck.report.progress import Progress

    nearest = settings_of(options)
    present = [path for path in options.paths if os.path.exists(path)]
    missing = [Failure(path, "no such file or directory") for path in options.paths if path not in present]
    missing += [Failure(path, "no Python file found") for path in present if not any(python_files([path]))]
    report = Report()
    if present:
        with Progress("checking", sys.stderr) as progress:
            report = check_paths(present, settings=nearest, on_file=progress.advance)
    return replace(report, failures=(*report.failures, *missing))


def settings_of(options: Namespace) -> Nearest:
    """Where the run's settings come from; raises `SettingsError` where those of the working directory are at fault."""
    known = registry.load()
    for selectors in (options.select, options.extend_select, options.ignore):
        registry.select(selectors, known)
    given = {key: True for key in ("possible", "force_exclude") if getattr(options, key)}
    nearest = Nearest(
        config=options.config,
        isolated=options.isolated,
        select=tuple(options.select),
        extend_select=tuple(options.extend_select),
        ignore=tuple(options.ignore),
        exclude=tuple(options.exclude),
        given=given | ({"respect_gitignore": False} if options.no_gitignore else {}),
    )
    if not nearest.options(".").select:
        raise registry.UnknownRuleError("no rule is left: what is ignored takes away all that is selected")
    run_wide(options, nearest.of("."))
    return nearest


def run_wide(options: Namespace, settings: Settings) -> None:
    """Fill in those options that concern the run as a whole and were not given."""
    for name in ("device", "fail_on"):
        if hasattr(options, name) and getattr(options, name) is None:
            setattr(options, name, getattr(settings, name))


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
