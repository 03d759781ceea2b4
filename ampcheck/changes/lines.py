"""Which lines of one file are new, and where lines have gone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher

from ampcheck.changes.git import Repository, content, hunks
from ampcheck.source import Unreadable, decode, read_bytes

__all__ = ["Changed", "changed_lines"]

NOTEBOOK = ".ipynb"
HUNK = re.compile(rb"^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Changed:
    """Lines (from 1) that were added or edited, all of them where `whole`; `gaps`: after these, lines are gone."""

    lines: frozenset[int] = frozenset()
    gaps: tuple[int, ...] = ()
    whole: bool = False

    def holds(self, first: int, last: int) -> bool:
        """Whether one of the lines from first to last is new."""
        return self.whole or any(line in self.lines for line in range(first, last + 1))

    def lost_from(self, first: int, last: int) -> bool:
        """Whether lines have gone from between first and last, or from right behind last."""
        return any(first <= gap <= last for gap in self.gaps)


def changed_lines(repository: Repository, path: str, old: str | None) -> Changed:
    """The changes of a file; of a notebook those of its code, by the lines of the module that its cells make."""
    if old is None:
        return Changed(whole=True)
    if path.endswith(NOTEBOOK):
        return _changed_code(repository, path, old)
    found = [
        (int(removed or 1), int(start), int(added or 1))
        for removed, start, added in (
            (match[1] and match[1].decode(), match[2].decode(), match[3] and match[3].decode())
            for match in HUNK.finditer(hunks(repository, path, old))
        )
    ]
    return _of(found)


def _changed_code(repository: Repository, path: str, old: str) -> Changed:
    try:
        before = decode(path, content(repository, old)).lines
        after = decode(path, read_bytes(path)).lines
    except Unreadable:
        return Changed(whole=True)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return _of(
        # As git counts: the first new line, or the line before where there is none.
        (i2 - i1, j1 + 1 if j2 > j1 else j1, j2 - j1)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    )


def _of(found: Iterable[tuple[int, int, int]]) -> Changed:
    """From hunks: how many lines were removed, where the new ones start, how many these are."""
    lines: set[int] = set()
    gaps: list[int] = []
    for removed, start, added in found:
        lines.update(range(start, start + added))
        if removed > added:
            gaps.append(start + max(added, 1) - 1)
    return Changed(frozenset(lines), tuple(gaps))
