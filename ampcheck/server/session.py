"""The open files and what a check says of them, below any transport.

The findings are those of `ampcheck check` on the open files, started in the same folder, with what stands in the editor
instead of what is on disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ampcheck.check import check_paths
from ampcheck.finding import Failure, Finding, Fix, Report
from ampcheck.fixes import propose
from ampcheck.memory import Memory
from ampcheck.notebook import Cells
from ampcheck.server.files import OpenFile
from ampcheck.server.shifting import Shift, shift
from ampcheck.settings import Nearest
from ampcheck.source import Source, Unreadable, passes_gate, unsaved
from ampcheck.trace import Trace

__all__ = ["Judged", "Outcome", "Session"]

# What is said of a file that cannot be analysed; its other findings are those of its last good text.
BROKEN = frozenset({"AMP900", "AMP903"})


MOST_BROKEN = 100
"""Checks of broken files after which nothing is remembered for their sake any more."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What is known of an open file: its findings, and the runs that they were found in.

    Where the text is broken, `kept` are the findings of the last good one, and the runs are those too; `shift` leads
    from their places to where these are now.  `source` is None where the text cannot be read at all.
    """

    file: OpenFile
    findings: tuple[Finding, ...] = ()
    traces: Sequence[Trace] = ()
    source: Source | None = None
    kept: tuple[Finding, ...] = ()
    shift: Shift | None = None

    @property
    def cells(self) -> Cells | None:
        """The way from the lines of a notebook's module to its cells."""
        return self.source.cells if self.source is not None else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The last check: what is known of each open file, and the findings in files that are not open, all by path.

    `failures` are files that are not open and could not be used: settings with a mistake in them.
    """

    files: Mapping[str, Judged] = field(default_factory=dict)
    elsewhere: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()


@dataclass(slots=True)
class Session:
    """Checks the open files; what did not change is not done again.

    `settings` makes the settings anew for every check: files that hold them change too.
    """

    settings: Callable[[], Nearest] = Nearest
    outcome: Outcome = field(default_factory=Outcome)
    _memory: Memory = field(default_factory=Memory)
    _broken: int = 0  # checks in a row that found a file broken
    _good: dict[str, Judged] = field(default_factory=dict)

    def check(
        self,
        files: Mapping[str, OpenFile],
        *,
        on_file: Callable[[str], None] | None = None,
        pulse: Callable[[], None] | None = None,
    ) -> Outcome:
        """Check files by path; `pulse` is called every now and then and may raise to give up."""
        memory = self._memory
        memory.watch(pulse or _go_on)
        memory.traces = {}
        with unsaved({os.path.abspath(path): file.data for path, file in files.items()}):
            report = check_paths(sorted(files), settings=self.settings(), on_file=on_file, memory=memory)
        judged = {path: self._judged(file, report) for path, file in files.items()}
        self._good = {path: good for path, good in self._good.items() if path in files}
        failures = tuple(failure for failure in report.failures if failure.path not in files)
        self.outcome = Outcome(judged, _elsewhere(report, files), failures)
        # What a file that is no Python for a moment had no use for is wanted again at the next keystroke.
        self._broken = self._broken + 1 if any(failure.path in files for failure in report.failures) else 0
        if self._broken % MOST_BROKEN == 0:
            memory.forget_unused()
        return self.outcome

    def fixes(self, findings: Iterable[Finding]) -> list[tuple[Finding, Fix]]:
        """The fixes of findings of the last check, each tried by a check of the edited text."""
        with unsaved({os.path.abspath(path): j.file.data for path, j in self.outcome.files.items()}):
            proposals = propose(findings)
        found = ((proposal.finding, proposal.finding.fix) for proposal in proposals)
        return [(finding, fix) for finding, fix in found if fix is not None]

    def _judged(self, file: OpenFile, report: Report) -> Judged:
        findings = tuple(f for f in report.findings if f.site.path == file.path)
        found = Judged(file, findings, self._memory.traces.get(file.path, ()), self._source(file))
        if all(failure.path != file.path for failure in report.failures):
            self._good[file.path] = found
            return found
        good = self._good.get(file.path)
        if good is None:
            return found
        return replace(
            found,
            findings=tuple(f for f in findings if f.code in BROKEN),
            traces=good.traces,
            kept=good.findings,
            shift=shift(_lines(good), _lines(found)),
        )

    def _source(self, file: OpenFile) -> Source | None:
        if not passes_gate(file.data):
            return None
        try:
            return self._memory.readings.source(file.path, file.data)
        except Unreadable:
            return None


def _lines(judged: Judged) -> Sequence[str]:
    """The lines that places count: of a notebook, those of its module."""
    if judged.cells is not None and judged.source is not None:
        return [line.text for line in judged.cells.lines]
    return judged.file.documents[0].lines if judged.file.documents else ()


def _elsewhere(report: Report, files: Mapping[str, OpenFile]) -> dict[str, tuple[Finding, ...]]:
    found: dict[str, tuple[Finding, ...]] = {}
    for finding in report.findings:
        if finding.site.path not in files:
            found[finding.site.path] = (*found.get(finding.site.path, ()), finding)
    return found


def _go_on() -> None:
    """Nobody wants a check to be given up."""
