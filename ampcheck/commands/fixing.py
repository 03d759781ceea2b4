"""`ampcheck check --fix`, `--diff` and `--show-fixes`."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ampcheck.commands.configured import settings_of
from ampcheck.commands.exits import CLEAN, FOUND, CannotDoError
from ampcheck.commands.linting import conclude, lint
from ampcheck.commands.standard_input import STDIN
from ampcheck.finding import Finding, Report
from ampcheck.fixes import FIXABLE, Proposal, propose
from ampcheck.fixes.applying import Applied, apply
from ampcheck.fixes.files import replace_file
from ampcheck.fixes.proof import prove
from ampcheck.fixes.unified import difference
from ampcheck.report.line import is_coloured, show
from ampcheck.report.progress import Progress
from ampcheck.settings import python_files
from ampcheck.source import read_bytes

__all__ = ["run"]

_STYLES = {"+": "good", "-": "error", "@": "code"}


def run(options: Namespace) -> int:
    """Lint, then name, show or apply fixes; what is left decides the exit code."""
    if STDIN in options.paths:
        raise CannotDoError("fixes are for files: they do not go with the path `-`")
    report = lint(options)
    settings = settings_of(options)
    fixable = [f for f in report.findings if f.code in FIXABLE]
    left: Sequence[Proposal]
    done = Applied()
    with Progress("fixing", sys.stderr, total=len(fixable)) as progress:
        if options.show_fixes:
            left = prove(propose(fixable, settings, progress.advance))
        else:
            files = list(python_files(options.paths, settings))
            done = apply(
                report.findings, files, settings, unsafe=options.unsafe_fixes, on_finding=progress.advance
            )
            left = done.left
    if options.diff:
        return _diff(done, left)
    if done.contents:
        _write(done)
        report = lint(options)
    code = conclude(_with_fixes(report, [p.finding for p in left]), options)
    if options.fix:
        _say(done.fixed, left, "fixed")
    else:
        _say_unproven(left)
    return code


def _diff(done: Applied, left: Sequence[Proposal]) -> int:
    lines = [
        line
        for path, new in done.contents.items()
        for line in difference(os.path.relpath(path), read_bytes(path), new)
    ]
    if sys.stdout.isatty() or is_coloured(sys.stdout):
        show((((line.rstrip("\r\n"), _STYLES.get(line[:1], "")),) for line in lines), sys.stdout)
    else:
        sys.stdout.writelines(lines)  # as it is: it may be meant for `git apply`
    sys.stdout.flush()
    _say(done.fixed, left, "would fix")
    return FOUND if done.contents else CLEAN


def _write(done: Applied) -> None:
    for path, new in done.contents.items():
        try:
            replace_file(path, new)
        except OSError as error:
            raise CannotDoError(f"{path}: cannot be written: {error.strerror or error}") from None


def _with_fixes(report: Report, known: Iterable[Finding]) -> Report:
    """The report with the fixes that were found for what it still shows."""
    fixes = {(f.code, f.site, f.message): f.fix for f in known}
    found = tuple(replace(f, fix=fixes.get((f.code, f.site, f.message))) for f in report.findings)
    return replace(report, findings=found)


def _say(fixed: Sequence[Finding], left: Sequence[Proposal], verb: str) -> None:
    """On standard error: how many of which rule, and how many more there are with `--unsafe-fixes`."""
    by_code = Counter(f.code for f in fixed)
    counts = ", ".join(f"{count} {code}" for code, count in sorted(by_code.items()))
    plural = "" if len(fixed) == 1 else "s"
    print(f"ampcheck: {verb} {len(fixed)} finding{plural}{f': {counts}' if counts else ''}", file=sys.stderr)
    more = sum(1 for p in left if p.finding.fix is not None)
    if more:
        print(f"ampcheck: {more} more with --unsafe-fixes", file=sys.stderr)
    _say_unproven(left)


def _say_unproven(left: Sequence[Proposal]) -> None:
    """Once for all of them, what is missing for a proof."""
    for reason in dict.fromkeys(p.reason for p in left if p.finding.fix is not None and p.reason):
        print(f"ampcheck: {reason}", file=sys.stderr)
