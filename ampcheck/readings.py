"""What was read of files, kept from one check to the next for as long as their text stays.

An editor asks for a check after every keystroke, and a keystroke changes one top-level statement: the others are not
read again.  Everything is kept by the text that it was made from, so nothing kept can be out of date.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from ampcheck import program as p
from ampcheck.kept import Kept
from ampcheck.lowering import lower
from ampcheck.lowering.outline import Glance, Outline, glance, outline
from ampcheck.lowering.segments import KeptSegments
from ampcheck.lowering.select import span
from ampcheck.source import Source, Unreadable, decode

__all__ = ["KeptReadings", "Readings"]

Names = frozenset[str]
NONE: Names = frozenset()


class Readings:
    """Reads files; what it read is for its caller to keep."""

    def source(self, path: str, data: bytes) -> Source:
        """A file's text and its parse; raises Unreadable."""
        return decode(path, data)

    def outline(self, source: Source) -> Outline:
        """The outline of a file."""
        return outline(source)

    def lowered(
        self, source: Source, facts: Outline, holders: Names, wanted: Names | None = None, hooks: Names = NONE
    ) -> p.Module:
        """The sliced core program of a file, as `ampcheck.lowering.lower` makes it; raises Unreadable."""
        return lower(source, facts, holders, wanted, hooks)


@dataclass(slots=True)
class KeptReadings(Readings):
    """Remembers what it read until `forget_unused` finds that nobody has asked for it again."""

    _sources: Kept[tuple[str, bytes], Source | Unreadable] = field(default_factory=Kept)
    # A source is known by its identity: what is made of it holds it, so that no other can have the same.
    _outlines: Kept[int, tuple[Source, Outline]] = field(default_factory=Kept)
    _glances: Kept[tuple[int | str | None, ...], Glance] = field(default_factory=Kept)
    _modules: Kept[tuple[int, Names, Names | None, Names], tuple[Source, p.Module]] = field(
        default_factory=Kept
    )
    _segments: KeptSegments = field(default_factory=KeptSegments)

    def source(self, path: str, data: bytes) -> Source:
        """A file's text and its parse; raises Unreadable."""
        found = self._sources.get((path, data), lambda: _decoded(path, data))
        if isinstance(found, Unreadable):
            raise Unreadable(str(found), found.line)
        return found

    def outline(self, source: Source) -> Outline:
        """The outline of a file."""
        return self._outlines.get(id(source), lambda: (source, self._outline(source)))[1]

    def lowered(
        self, source: Source, facts: Outline, holders: Names, wanted: Names | None = None, hooks: Names = NONE
    ) -> p.Module:
        """The sliced core program of a file."""
        return self._modules.get(
            (id(source), holders, wanted, hooks),
            lambda: (source, lower(source, facts, holders, wanted, hooks, self._segments)),
        )[1]

    def forget_unused(self) -> None:
        """Forget what the checks since the last call had no use for."""
        for kept in (self._sources, self._outlines, self._glances, self._modules, self._segments):
            kept.forget_unused()

    def _outline(self, source: Source) -> Outline:
        lines = source.lines

        def look(statement: ast.stmt) -> Glance:
            first, last = span(statement)
            # Two statements may share a line.
            key = statement.col_offset, statement.end_col_offset, *lines[first - 1 : last]
            return self._glances.get(key, lambda: glance(statement))

        return outline(source, look)


def _decoded(path: str, data: bytes) -> Source | Unreadable:
    try:
        return decode(path, data)
    except Unreadable as error:
        return error
