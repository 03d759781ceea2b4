"""Where the lines of a text are after an edit: those above it stay, those below it move with the text's end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ampcheck.events import Site

__all__ = ["Shift", "shift"]


@dataclass(frozen=True, slots=True)
class Shift:
    """The first `kept` lines are where they were, the lines after `edited` are `by` farther down, of `total`."""

    kept: int
    edited: int
    by: int
    total: int

    def line(self, line: int) -> int:
        """Where a line (from 1) is now; one that was edited stays as near as it can."""
        if line <= self.kept:
            return line
        return max(1, min(line + self.by if line > self.edited else line, self.total))

    def back(self, line: int) -> int:
        """Which line stood where this one does now."""
        return line if line <= self.kept or line - self.by <= self.edited else line - self.by

    def site(self, site: Site) -> Site:
        """Where a place is now."""
        first = self.line(site.line)
        return replace(site, line=first, end_line=max(first, self.line(site.end_line)))


def shift(old: Sequence[str], new: Sequence[str]) -> Shift:
    """The shift between two texts by lines, of one edit; several are taken for one that spans them all."""
    most = min(len(old), len(new))
    kept = next((i for i in range(most) if old[i] != new[i]), most)
    most -= kept
    tail = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    return Shift(kept, len(old) - tail, len(new) - len(old), len(new))
