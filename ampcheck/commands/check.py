"""`ampcheck check`: lint."""

from __future__ import annotations

from argparse import Namespace

from ampcheck.commands.exits import CannotDoError
from ampcheck.commands.linting import conclude, lint
from ampcheck.commands.standard_input import STDIN

__all__ = ["run"]


def run(options: Namespace) -> int:
    """Lint, or show what would be linted and how; findings are shown, or made known."""
    if options.show_settings or options.show_files:
        from ampcheck.commands.showing import show_files, show_settings

        return show_settings(options) if options.show_settings else show_files(options)
    writes = "--write-baseline" if options.write_baseline else "--add-ignores" if options.add_ignores else ""
    if writes and STDIN in options.paths:
        raise CannotDoError(f"{writes} needs files: it does not go with the path `-`")
    if options.write_baseline and options.since is not None:
        raise CannotDoError("--write-baseline knows all that is found: it does not go with --since")
    if options.unsafe_fixes and not (options.fix or options.diff):
        raise CannotDoError("--unsafe-fixes says which fixes are applied: add --fix or --diff")
    if options.fix or options.diff or options.show_fixes:
        if writes:
            raise CannotDoError(f"{writes} does not go with fixes: do one after the other")
        from ampcheck.commands import fixing

        return fixing.run(options)
    report = lint(options)
    if options.write_baseline:
        from ampcheck.commands.knowing import write_baseline

        return write_baseline(report, options)
    if options.add_ignores:
        from ampcheck.commands.knowing import silence

        report, code = silence(report)
        return max(code, conclude(report, options)) if report.findings or report.failures else code
    return conclude(report, options)
