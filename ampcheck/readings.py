"""What was read of files, kept from one check to the next for as long as their text stays.

An editor asks for a check after every keystroke, and a keystroke changes one top-level statement: the others are not
read again.  Everything is kept by the text that it was made from, so nothing kept can be out of date.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ampcheck import program as p
from ampcheck.kept import Kept
from ampcheck.lowering import lower, read_segment
from ampcheck.lowering.moving import moved
from ampcheck.lowering.outline import Outline, outline
from ampcheck.lowering.select import Segment
from ampcheck.source import Source, Unreadable, decode

__all__ = ["Readings"]

Names = frozenset[str]


@dataclass(slots=True)
class Readings:
    """Files decoded, outlined and lowered so far."""

    _sources: Kept[tuple[str, bytes], Source | Unreadable] = field(default_factory=Kept)
    # A source is known by its identity: what is made of it holds it, so that no other can have the same.
    _outlines: Kept[int, tuple[Source, Outline]] = field(default_factory=Kept)
    _modules: Kept[tuple[int, Names, Names | None, Names], tuple[Source, p.Module]] = field(
        default_factory=Kept
    )
    _segments: Kept[tuple[str, str, int], list[p.Stmt]] = field(default_factory=Kept)
    # Where a statement stood when it was read: a line more or less above it changes nothing else.
    _originals: Kept[tuple[str, str], tuple[int, list[p.Stmt]]] = field(default_factory=Kept)

    def source(self, path: str, data: bytes) -> Source:
        """A file's text and its parse; raises Unreadable."""
        found = self._sources.get((path, data), lambda: _decoded(path, data))
        if isinstance(found, Unreadable):
            raise Unreadable(str(found), found.line)
        return found

    def outline(self, source: Source) -> Outline:
        """The outline of a file."""
        return self._outlines.get(id(source), lambda: (source, outline(source)))[1]

    def lowered(
        self, source: Source, holders: Names, wanted: Names | None = None, hooks: Names = frozenset()
    ) -> p.Module:
        """The sliced core program of a file, as `ampcheck.lowering.lower` makes it; raises Unreadable."""
        facts = self.outline(source)
        return self._modules.get(
            (id(source), holders, wanted, hooks),
            lambda: (source, lower(source, facts, holders, wanted, hooks, self._read)),
        )[1]

    def forget_unused(self) -> None:
        """Forget what the checks since the last call had no use for."""
        for kept in (self._sources, self._outlines, self._modules, self._segments, self._originals):
            kept.forget_unused()

    def _read(self, source: Source, segment: Segment) -> list[p.Stmt]:
        def read() -> list[p.Stmt]:
            line, statements = self._originals.get(
                (source.path, segment.text), lambda: (segment.line, read_segment(source, segment))
            )
            return moved(statements, segment.line - line)

        return self._segments.get((source.path, segment.text, segment.line), read)


def _decoded(path: str, data: bytes) -> Source | Unreadable:
    try:
        return decode(path, data)
    except Unreadable as error:
        return error
