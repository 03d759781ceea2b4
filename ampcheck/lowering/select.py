"""Picks the top-level statements that a training step can depend on, by the standard library's cheap parse.

libcst costs six to nine times what `ast` costs, so only what matters is given to it: statements that hold an
event's name, and everything that those refer to by name, transitively.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ampcheck.lowering.names import EVENT_NAMES
from ampcheck.source import Source

__all__ = ["Segment", "select"]


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive source lines to be read together, and the line that they begin on."""

    line: int
    text: str


def select(source: Source) -> Iterator[Segment]:
    """The segments that matter, in source order."""
    if source.tree is None:
        yield Segment(1, source.text)
        return
    lines = source.lines
    for first, last in _merge(_picked(source.tree)):
        yield Segment(first, "\n".join(lines[first - 1 : last]) + "\n")


def _span(statement: ast.stmt) -> tuple[int, int]:
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(d.lineno for d in decorators)])
    return first, statement.end_lineno or first


def _merge(statements: list[ast.stmt]) -> Iterator[tuple[int, int]]:
    """Line ranges of the statements; those that share or touch a line are read as one."""
    current: tuple[int, int] | None = None
    for statement in statements:
        first, last = _span(statement)
        if current is not None and first <= current[1] + 1:
            current = (current[0], max(current[1], last))
        else:
            if current is not None:
                yield current
            current = (first, last)
    if current is not None:
        yield current


def _names(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """The names a statement binds at top level, and all the names and attributes it mentions."""
    bound: set[str] = set()
    used: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            (bound if isinstance(node.ctx, ast.Store) else used).add(node.id)
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        bound = {statement.name}
    return bound, used


def _picked(tree: ast.Module) -> list[ast.stmt]:
    picked: set[int] = set()
    wanted: set[str] = set()
    facts = [_names(statement) for statement in tree.body]
    for index, (statement, (_, used)) in enumerate(zip(tree.body, facts, strict=True)):
        if isinstance(statement, (ast.Import, ast.ImportFrom)) or used & EVENT_NAMES or _jumps(statement):
            picked.add(index)
            wanted |= used
    # Backwards too: a statement that calls a picked function by name may hold the loop.
    defined = {name for index in picked for name in facts[index][0]}
    grew = True
    while grew:
        grew = False
        for index, (bound, used) in enumerate(facts):
            if index not in picked and (bound & wanted or used & defined):
                picked.add(index)
                wanted |= used
                if used & defined:
                    defined |= bound
                grew = True
    # One line can hold several statements: they are read together or not at all.
    return [statement for index, statement in enumerate(tree.body) if index in picked]


def _jumps(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and _is_main_guard(statement.test)


def _is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
