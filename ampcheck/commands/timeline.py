"""`ampcheck timeline`: the window of each loop as a picture in the terminal."""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING

from ampcheck import registry
from ampcheck.check import Analysed
from ampcheck.commands.exits import CLEAN, COULD_NOT, refuse
from ampcheck.commands.linting import lint
from ampcheck.commands.replay import replayed
from ampcheck.report.line import console
from ampcheck.report.place import place
from ampcheck.report.summary import unshown

if TYPE_CHECKING:
    from ampcheck.timeline.loops import Loop

__all__ = ["run"]


def run(options: Namespace) -> int:
    """Draw; findings do not change the exit code."""
    from rich.markup import escape
    from rich.padding import Padding

    from ampcheck.timeline.loops import loops_of, with_findings
    from ampcheck.timeline.pictures import pictures
    from ampcheck.timeline.terminal import brief, legend, picture

    analysed: list[Analysed] = []
    report = lint(options, analysed.append)
    refused = ""
    if options.replay:
        report, refused = replayed(report, options)
    found = with_findings([loop for one in analysed for loop in loops_of(one)], report.findings)
    loops = [loop for loop in found if options.loop is None or options.loop in _names(loop)]
    coarse = options.ascii or not _draws_frames(sys.stdout.encoding)
    out = console(sys.stdout, options.width)
    notebooks = {a.source.path: a.source.cells for a in analysed if a.source.cells is not None}
    contests = {rule.code: rule.contests for rule in registry.load()}
    for loop in loops:
        out.print(f"[bold]{escape(place(loop.place, notebooks, column=False))}  {escape(loop.name)}[/]")
        where = partial(brief, home=loop.place.path, notebooks=notebooks)
        for shown in pictures(loop, contests):
            if shown.condition:
                out.print(f"  when {escape(shown.condition)}")
            out.print(picture(shown, out.width, where, ascii_only=coarse))
            for finding in shown.findings:
                said = f"[bold red]{finding.code}[/] {finding.name}: {escape(finding.message)}"
                out.print(Padding(said, (0, 0, 0, 2), expand=False))
                if finding.replay is not None:
                    measured = f"replay: {escape(finding.replay.text)}: {finding.replay.outcome}"
                    out.print(Padding(measured, (0, 0, 0, 2), expand=False))
            out.print()
    if loops:
        out.print(legend(ascii_only=coarse))
    for failure in report.failures:  # also those that are findings: the picture shows none of them
        refuse(f"{failure.path}: {failure.message}")
    if refused:
        refuse(f"not replayed: {refused}")
    if not loops:
        names = ", ".join(dict.fromkeys(loop.name for loop in found))
        wanted = (
            f"no loop is called {options.loop!r}; there are: {names}" if found else "no training loop found"
        )
        return refuse(wanted)
    return COULD_NOT if refused or unshown(report) else CLEAN


def _names(loop: Loop) -> tuple[str, ...]:
    """What a loop may be called by: its function, with or without the class."""
    name = loop.name.removesuffix("()")
    return loop.name, name, name.rpartition(".")[2]


def _draws_frames(encoding: str | None) -> bool:
    """Whether a terminal can show the frames and marks."""
    try:
        "╭✗×Σ".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
