"""Edits of whole statements: put a new one somewhere, move one, delete one, put a header above some."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ampcheck.fixes.case import Cannot
from ampcheck.fixes.draft import Draft
from ampcheck.fixes.syntax import Block, Module

__all__ = ["delete", "insert", "move", "under"]


def insert(
    draft: Draft,
    module: Module,
    texts: Sequence[str],
    *,
    before: ast.stmt | None = None,
    after: ast.stmt | None = None,
) -> Draft:
    """New statements before or after one, indented like it; a text's own indentation is kept on top."""
    anchor = before or after
    assert anchor is not None
    _must_be_alone(module, anchor)
    first, last = module.span(anchor)
    lines = [module.indent(anchor) + text for text in texts]
    return draft.insert(lines, before=first) if before else draft.insert(lines, after=last)


def move(
    draft: Draft,
    module: Module,
    statements: Sequence[ast.stmt],
    *,
    before: ast.stmt | None = None,
    after: ast.stmt | None = None,
    asked: str = "",
) -> Draft:
    """Neighbouring statements to before or after another one, with the comments right above them.

    Where they are put, they are under a test of what is `asked`.
    """
    anchor = before or after
    assert anchor is not None
    _must_be_alone(module, anchor, *statements)
    block = module.block(statements[0])
    start, last = _with_comments(module, statements[0]), module.span(statements[-1])[1]
    first, end = module.span(anchor)
    if start <= first <= last:
        raise Cannot("the statement would have to be moved into itself")
    draft = _leave(draft, module, block, statements)
    indent = module.indent(anchor) + (module.unit(anchor) if asked else "")
    for statement in statements:
        begin, stop = module.span(statement)
        begin = start if statement is statements[0] else begin
        draft = draft.indent(begin, stop, module.indent(statement), indent, module.fixed_lines(statement))
    header = [f"{module.indent(anchor)}if {asked}:"] if asked else []
    if before:
        return draft.insert(header, before=first).move(start, last, before=first)
    return draft.insert(header, after=end).move(start, last, after=end)


def delete(draft: Draft, module: Module, statements: Sequence[ast.stmt]) -> Draft:
    """Neighbouring statements away, with the header of a block that held nothing else."""
    _must_be_alone(module, *statements)
    draft = _leave(draft, module, module.block(statements[0]), statements)
    return draft.delete(module.span(statements[0])[0], module.span(statements[-1])[1])


def under(draft: Draft, module: Module, header: str, statements: Sequence[ast.stmt]) -> Draft:
    """Neighbouring statements into a new block below a header."""
    _must_be_alone(module, *statements)
    outer = module.indent(statements[0])
    first, last = module.span(statements[0])[0], module.span(statements[-1])[1]
    fixed = frozenset[int]().union(*(module.fixed_lines(s) for s in statements))
    draft = draft.insert([outer + header], before=first)
    return draft.indent(first, last, outer, outer + module.unit(statements[0]), fixed)


def _leave(draft: Draft, module: Module, block: Block, statements: Sequence[ast.stmt]) -> Draft:
    """Prepare a block for losing statements: one that is left empty goes too, where nothing depends on it."""
    if len(statements) < len(block):
        return draft
    holder = module.parent(block[0])
    if isinstance(holder, ast.If) and block is holder.orelse:
        line = _header_of_else(module, holder)
        return draft.delete(line, line)
    if isinstance(holder, ast.If) and not holder.orelse and _is_idle(holder.test):
        _must_be_alone_but_inside(module, holder)
        if len(module.block(holder)) == 1:
            return _leave(draft, module, module.block(holder), [holder]).delete(
                holder.lineno, _last_of_header(holder)
            )
        return draft.delete(holder.lineno, _last_of_header(holder))
    raise Cannot("it is all that its block holds")


def _header_of_else(module: Module, holder: ast.If) -> int:
    """The line of an ``else:``; raises `Cannot` for an ``elif``, and where the block stands on the same line."""
    first = holder.orelse[0]
    for line in range(first.lineno - 1, (holder.body[-1].end_lineno or 0), -1):
        if module.lines[line - 1].split("#")[0].strip() == "else:":
            return line
    raise Cannot("it is all that its block holds")


def _last_of_header(holder: ast.If) -> int:
    return holder.test.end_lineno or holder.lineno


def _must_be_alone_but_inside(module: Module, holder: ast.If) -> None:
    last = _last_of_header(holder)
    if not module.lines[last - 1].split("#")[0].rstrip().endswith(":") or _is_elif(module, holder):
        raise Cannot("it is all that its block holds")


def _is_elif(module: Module, holder: ast.If) -> bool:
    return module.lines[holder.lineno - 1].lstrip().startswith("elif")


def _is_idle(test: ast.expr) -> bool:
    """Whether nothing happens when a test is evaluated."""
    return not any(
        isinstance(n, (ast.Call, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for n in ast.walk(test)
    )


def _with_comments(module: Module, statement: ast.stmt) -> int:
    """The first of the comment lines that stand right above a statement, as far in; its own first line if none do."""
    first = module.span(statement)[0]
    while first > 1:
        above = module.lines[first - 2]
        if not above.startswith(module.indent(statement) + "#") or _of_other_cell(
            module, first - 1, statement
        ):
            break
        first -= 1
    return first


def _of_other_cell(module: Module, line: int, statement: ast.stmt) -> bool:
    cells = module.source.cells
    return cells is not None and cells.lines[line - 1].cell != cells.lines[statement.lineno - 1].cell


def _must_be_alone(module: Module, *statements: ast.stmt) -> None:
    for statement in statements:
        if not module.is_alone(statement):
            raise Cannot(f"line {statement.lineno} holds more than one statement")
