"""Some lines of a file to core statements, and what was read of them kept for the next time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from ampcheck import program as p
from ampcheck.kept import Kept
from ampcheck.lowering.moving import moved
from ampcheck.lowering.select import Segment
from ampcheck.lowering.slicing import Facts
from ampcheck.lowering.statements import Statements
from ampcheck.source import Source, Unreadable

__all__ = ["KeptSegments", "Segments"]

EMPTY_CONTINUATION = re.compile(r"\\(?=\n[ \t]*(?:\n|\Z))")


class Segments:
    """Reads segments, and says what single statements tell a slice."""

    def read(self, source: Source, segment: Segment) -> list[p.Stmt]:
        """The core statements of some lines of a file; raises Unreadable."""
        try:
            module = _parsed(segment.text)
        except cst.ParserSyntaxError as error:
            # Python's own message is the better one: libcst lists every token that it could have gone on with.
            line = error.raw_line + segment.line - 1
            raise source.refusal or Unreadable(
                f"not Python: {source.where(line)}: invalid syntax", line
            ) from None
        # The tree was just parsed and belongs to nobody else: the wrapper's deep copy would double the cost.  Its
        # `resolve` would also walk the tree once more for the visitors that this provider does not have.
        positions = PositionProvider()._gen(MetadataWrapper(module, unsafe_skip_copy=True))
        lowering = Statements(source.path, positions, segment.line - 1)
        return list(lowering.block(module.body))

    def facts(self) -> Facts:
        """What the statements of one file tell."""
        return Facts()


@dataclass(slots=True)
class KeptSegments(Segments):
    """Segments whose text has not changed are not read again."""

    _statements: Kept[tuple[str, str, int], list[p.Stmt]] = field(default_factory=Kept)
    # Where a statement stood when it was read: a line more or less above it changes nothing else.
    _originals: Kept[tuple[str, str], tuple[int, list[p.Stmt]]] = field(default_factory=Kept)
    _facts: Facts = field(default_factory=Facts)

    def read(self, source: Source, segment: Segment) -> list[p.Stmt]:
        """The core statements of some lines, of the last time if they were the same."""

        def look() -> list[p.Stmt]:
            line, statements = self._originals.get(
                (source.path, segment.text), lambda: (segment.line, Segments.read(self, source, segment))
            )
            return moved(statements, segment.line - line)

        return self._statements.get((source.path, segment.text, segment.line), look)

    def facts(self) -> Facts:
        """What was found out of all statements so far."""
        return self._facts

    def forget_unused(self) -> None:
        """Forget what was not read since the last call."""
        self._statements.forget_unused()
        self._originals.forget_unused()
        self._facts.forget_unused()


def _parsed(text: str) -> cst.Module:
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError:
        # Python lets an empty line end a continued one, libcst does not.
        mended = EMPTY_CONTINUATION.sub(" ", text)
        if mended == text:
            raise
        return cst.parse_module(mended)
