"""What becomes of findings that are known: left out by a baseline, put into it, or silenced by comments."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from ampcheck.baseline import Baseline, BaselineError, Entry
from ampcheck.commands.configured import settings_of
from ampcheck.commands.exits import CLEAN, COULD_NOT, CannotDoError, refuse
from ampcheck.finding import Report
from ampcheck.report.summary import count, unshown
from ampcheck.settings import Nearest, SettingsError, python_files
from ampcheck.suppressions import UNUSED

__all__ = ["silence", "without_known", "write_baseline"]


def without_known(report: Report, options: Namespace, nearest: Nearest, paths: Sequence[str]) -> Report:
    """The report without what the baseline knows; raises `CannotDoError` where it cannot be read."""
    if not getattr(options, "baseline", None):  # not every command asks for one
        return report

    def is_judged(entry: Entry, path: str) -> bool:
        try:
            asked = nearest.options(path)
        except SettingsError:
            return False
        looked_for = {entry.code, UNUSED} <= asked.select - asked.ignore
        return looked_for and (asked.possible or entry.verdict == "certain")

    try:
        baseline = Baseline.read(options.baseline)
    except BaselineError as error:
        raise CannotDoError(str(error)) from None
    return baseline.apply(report, list(python_files(paths, nearest)), is_judged)


def write_baseline(report: Report, options: Namespace) -> int:
    """Make the baseline know all that was found."""
    nearest = settings_of(options)
    if not getattr(options, "baseline", None):  # not every command asks for one
        raise CannotDoError("--write-baseline: say where: --baseline FILE, or `baseline` in the settings")
    try:
        exists = os.path.exists(options.baseline)
        old = Baseline.read(options.baseline) if exists else Baseline(options.baseline)
        new = old.renewed(report, list(python_files(options.paths, nearest)))
        new.write()
    except BaselineError as error:
        raise CannotDoError(str(error)) from None
    before, after = set(old.entries), set(new.entries)
    print(
        f"{options.baseline}: {count(len(after), 'finding')} ({len(after - before)} new, {len(before - after)} gone)"
    )
    return _refused(report)


def silence(report: Report) -> tuple[Report, int]:
    """Write comments for what was found; what is left to report, and the exit code so far."""
    from ampcheck.suppressions.adding import add_comments

    added = add_comments(report.findings)
    files = len({finding.site.path for finding in added.silenced})
    print(f"silenced {count(len(added.silenced), 'finding')} in {count(files, 'file')}")
    for failure in added.failures:
        refuse(f"{failure.path}: {failure.message}")
    done = {id(finding) for finding in added.silenced}
    left = tuple(finding for finding in report.findings if id(finding) not in done)
    rest = replace(report, findings=left, silenced=(*report.silenced, *added.silenced))
    return rest, COULD_NOT if added.failures else CLEAN


def _refused(report: Report) -> int:
    failures = unshown(replace(report, findings=()))
    for failure in failures:
        refuse(f"{failure.path}: {failure.message}")
    return COULD_NOT if failures else CLEAN
