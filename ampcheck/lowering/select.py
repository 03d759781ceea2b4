"""Picks the top-level statements that a training step can depend on, by the outline of a file.

libcst costs six to nine times what `ast` costs, so only what matters is given to it: statements that hold an
event's name, and everything that those refer to by name, transitively.  Of a file that is only imported from, the
definitions asked for are picked, and what they refer to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ampcheck.lowering.names import EVENT_NAMES
from ampcheck.lowering.outline import Outline
from ampcheck.lowering.piece import Piece
from ampcheck.source import Source

__all__ = ["Segment", "select", "span"]


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive source lines to be read together, and the line that they begin on."""

    line: int
    text: str


def select(
    source: Source,
    facts: Outline,
    holders: frozenset[str] = frozenset(),
    wanted: frozenset[str] | None = None,
) -> Iterator[Segment]:
    """The segments that matter, in source order.

    `holders` are imported names whose definitions hold events; with `wanted`, only these definitions are picked.
    """
    if source.tree is None:
        yield Segment(1, source.text)
        return
    lines = source.lines
    pieces = _picked(facts, EVENT_NAMES | holders) if wanted is None else _asked_for(facts, wanted)
    for first, last in _merge(pieces):
        yield Segment(first, "\n".join(lines[first - 1 : last]) + "\n")


def span(statement: ast.stmt) -> tuple[int, int]:
    """The first and the last line of a statement, its decorators included."""
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(d.lineno for d in decorators)])
    return first, statement.end_lineno or first


def _merge(pieces: list[Piece]) -> Iterator[tuple[int, int]]:
    """Line ranges of the statements; those that share a line are read as one."""
    current: tuple[int, int] | None = None
    for piece in pieces:
        first, last = span(piece.statement)
        if current is not None and first <= current[1]:
            current = (current[0], max(current[1], last))
        else:
            if current is not None:
                yield current
            current = (first, last)
    if current is not None:
        yield current


def _asked_for(facts: Outline, wanted: frozenset[str]) -> list[Piece]:
    reached = set(facts.reachable(wanted))
    return [piece for piece in facts.pieces if piece in reached or piece.is_import]


def _picked(facts: Outline, events: frozenset[str]) -> list[Piece]:
    picked: set[int] = set()
    wanted: set[str] = set()
    for index, piece in enumerate(facts.pieces):
        if piece.is_import or piece.used & events or _jumps(piece.statement):
            picked.add(index)
            wanted |= piece.used
    # Backwards too: a statement that calls a picked function by name may hold the loop.
    defined = {name for index in picked for name in facts.pieces[index].bound}
    grew = True
    while grew:
        grew = False
        for index, piece in enumerate(facts.pieces):
            if index not in picked and (piece.gives(wanted) or piece.used & defined):
                picked.add(index)
                wanted |= piece.used
                if piece.used & defined:
                    defined |= piece.bound
                grew = True
    # One line can hold several statements: they are read together or not at all.
    return [piece for index, piece in enumerate(facts.pieces) if index in picked]


def _jumps(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and _is_main_guard(statement.test)


def _is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
