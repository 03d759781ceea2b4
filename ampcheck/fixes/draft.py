"""A file's lines while they are edited: each remembers where it came from, so that findings can be found again.

Lines are addressed by their number in the original, whatever was done to the draft before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import pairwise

from ampcheck.events import Site
from ampcheck.finding import Edit
from ampcheck.fixes.syntax import Module

__all__ = ["Draft", "Line", "together"]

NO_CELL = -1


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its text, its number in the original (0 for a new one), and its cell (0 outside notebooks)."""

    text: str
    origin: int
    cell: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """The lines of one file, edited; every operation gives a new draft."""

    path: str
    before: tuple[Line, ...]
    lines: tuple[Line, ...]

    @classmethod
    def of(cls, module: Module) -> Draft:
        """The draft of a file, with nothing changed."""
        cells = module.source.cells
        numbers = [0] * len(module.lines) if cells is None else [line.cell for line in cells.lines]
        numbers += [NO_CELL] * (len(module.lines) - len(numbers))  # behind a notebook's last line
        lines = tuple(
            Line(text, n, cell) for n, (text, cell) in enumerate(zip(module.lines, numbers, strict=True), 1)
        )
        return cls(module.path, lines, lines)

    # --- operations -------------------------------------------------------------------------------------------

    def insert(self, texts: Sequence[str], *, before: int = 0, after: int = 0) -> Draft:
        """Put new lines before or after one; after it, behind what was put there already."""
        return self._put([Line(text, 0) for text in texts], before, after)

    def replace(self, line: int, text: str) -> Draft:
        """Give a line another text."""
        return replace(
            self, lines=tuple(replace(x, text=text) if x.origin == line else x for x in self.lines)
        )

    def delete(self, first: int, last: int) -> Draft:
        """Take lines out."""
        return replace(self, lines=tuple(x for x in self.lines if not first <= x.origin <= last))

    def indent(self, first: int, last: int, old: str, new: str, fixed: frozenset[int] = frozenset()) -> Draft:
        """Give lines another indentation, but for those in `fixed`."""
        return replace(
            self,
            lines=tuple(
                replace(x, text=_indented(x.text, old, new))
                if first <= x.origin <= last and x.origin not in fixed
                else x
                for x in self.lines
            ),
        )

    def move(self, first: int, last: int, *, before: int = 0, after: int = 0) -> Draft:
        """Put lines elsewhere; they stay what they were."""
        moved = [x for x in self.lines if first <= x.origin <= last]
        return self.delete(first, last)._put(moved, before, after)

    def _put(self, new: Sequence[Line], before: int, after: int) -> Draft:
        # What a line was put behind may have lost its end to the move.
        stays = max(x.origin for x in self.lines if x.origin <= after) if after else before
        at = next(i for i, x in enumerate(self.lines) if x.origin == stays)
        cell = self.lines[at].cell
        if after:
            at += 1
            while at < len(self.lines) and not self.lines[at].origin:
                at += 1
        placed = tuple(replace(x, cell=cell) for x in new)
        return replace(self, lines=(*self.lines[:at], *placed, *self.lines[at:]))

    # --- results ----------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The whole text, lines ended by LF."""
        return "\n".join(line.text for line in self.lines)

    def origin(self, number: int) -> int:
        """Where a line of the new text stood in the original; 0 for a new one."""
        return self.lines[number - 1].origin if 0 < number <= len(self.lines) else 0

    def touched(self) -> frozenset[int]:
        """The original lines that are changed, gone, or next to something new."""
        return frozenset(
            line for edit in self.edits() for line in range(edit.site.line, edit.site.end_line + 1)
        )

    def edits(self) -> tuple[Edit, ...]:
        """The difference, as replacements in the original: whole lines, or a part of one line."""
        found: list[Edit] = []
        for cell in dict.fromkeys(line.cell for line in self.before):
            old = [line for line in self.before if line.cell == cell]
            new = [line for line in self.lines if line.cell == cell]
            found += self._hunks(old, new)
        return tuple(sorted(found, key=lambda edit: edit.site))

    def _hunks(self, old: Sequence[Line], new: Sequence[Line]) -> Iterator[Edit]:
        matcher = SequenceMatcher(None, [x.text for x in old], [x.text for x in new], autojunk=False)
        for tag, i, j, k, m in matcher.get_opcodes():
            if tag == "equal":
                continue
            was, texts = old[i:j], [x.text for x in new[k:m]]
            if len(was) == len(texts):
                for line, text in zip(was, texts, strict=True):
                    yield self._within(line, text)
            elif j < len(old):  # up to the beginning of the line that stays
                start, stop = (was[0] if was else old[j]).origin, old[j].origin
                yield Edit(Site(self.path, start, 1, stop, 1), "".join(f"{text}\n" for text in texts))
            elif i:  # the end of a cell or file: from the end of the line that stays
                last = old[i - 1]
                end = was[-1] if was else last
                site = Site(self.path, last.origin, len(last.text) + 1, end.origin, len(end.text) + 1)
                yield Edit(site, "".join(f"\n{text}" for text in texts))
            else:
                site = Site(self.path, was[0].origin, 1, was[-1].origin, len(was[-1].text) + 1)
                yield Edit(site, "\n".join(texts))

    def _within(self, line: Line, text: str) -> Edit:
        """The part of a line that differs."""
        old = line.text
        start = next(
            (i for i, (a, b) in enumerate(zip(old, text, strict=False)) if a != b), min(len(old), len(text))
        )
        tail = 0
        while tail < min(len(old), len(text)) - start and old[-1 - tail] == text[-1 - tail]:
            tail += 1
        site = Site(self.path, line.origin, start + 1, line.origin, len(old) - tail + 1)
        return Edit(site, text[start : len(text) - tail])


def together(drafts: Sequence[Draft]) -> Draft | None:
    """Several drafts of one file as one; None where two of them touch the same lines, or neighbouring ones."""
    first = drafts[0]
    hunks: list[tuple[int, int, tuple[Line, ...]]] = []
    for draft in drafts:
        matcher = SequenceMatcher(None, draft.before, draft.lines, autojunk=False)
        hunks += [(i, j, draft.lines[k:m]) for tag, i, j, k, m in matcher.get_opcodes() if tag != "equal"]
    hunks.sort(key=lambda hunk: hunk[:2])
    if any(one[1] >= other[0] for one, other in pairwise(hunks)):
        return None
    lines: list[Line] = []
    at = 0
    for start, stop, new in hunks:
        lines += [*first.before[at:start], *new]
        at = stop
    return replace(first, lines=(*lines, *first.before[at:]))


def _indented(text: str, old: str, new: str) -> str:
    if not text.strip():
        return text
    if text.startswith(old):
        return new + text.removeprefix(old)
    return text  # a comment or a continued line that stands further left
