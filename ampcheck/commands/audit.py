"""`ampcheck audit`: the review of a project on one page."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from datetime import UTC, datetime

from ampcheck import registry
from ampcheck.check import Analysed
from ampcheck.commands.exits import CLEAN, COULD_NOT, refuse
from ampcheck.commands.linting import STDOUT, lint
from ampcheck.commands.replay import replayed
from ampcheck.report.line import show
from ampcheck.report.summary import summary, unshown

__all__ = ["run"]


def run(options: Namespace) -> int:
    """Write the page; findings do not change the exit code, what was asked for and not done does."""
    from ampcheck.audit import Audit, render

    analysed: list[Analysed] = []
    report = lint(options, analysed.append)
    refused = ""
    if options.replay:
        report, refused = replayed(report, options)
    page = render(Audit(report, analysed, options.paths, registry.load()), _date())
    if options.output_file == STDOUT:
        sys.stdout.write(page)
    else:
        try:
            with open(options.output_file, "w", encoding="utf-8") as file:
                file.write(page)
        except OSError as error:
            return refuse(f"{options.output_file}: cannot be written: {error.strerror or error}")
        print(f"wrote {options.output_file}")
        show(summary(report), sys.stdout)
    for failure in unshown(report):
        refuse(f"{failure.path}: {failure.message}")
    if refused:
        refuse(f"not replayed: {refused}")
    return COULD_NOT if refused or unshown(report) else CLEAN


def _date() -> str:
    """Today, or the date of the sources where a reproducible build asks for it (reproducible-builds.org)."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    when = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() else datetime.now(UTC)
    return f"{when:%Y-%m-%d}"
