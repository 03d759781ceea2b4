"""A file's statements as an edit needs them: what stands where, in which block, and what shares its line.

Python's own `ast` says where things are; the edits themselves are made on the text, so that everything else in the file
stays as it is, byte for byte.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from ampcheck.events import Site
from ampcheck.source import Source

__all__ = ["Block", "Function", "Module"]

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
Block = list[ast.stmt]


@dataclass(slots=True)
class Module:
    """One parsed file.  Lines and columns count from 1, columns in characters, as in a `Site`."""

    source: Source
    tree: ast.Module
    lines: tuple[str, ...]
    _parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    _blocks: dict[ast.stmt, Block] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Source) -> Module | None:
        """The module of a source; None where only libcst could parse it."""
        if source.tree is None:
            return None
        module = cls(source, source.tree, source.lines)
        for node in ast.walk(source.tree):
            for child in ast.iter_child_nodes(node):
                module._parents[child] = node
            for block in blocks_of(node):
                module._blocks.update(dict.fromkeys(block, block))
        return module

    @property
    def path(self) -> str:
        """The file's path."""
        return self.source.path

    # --- places -----------------------------------------------------------------------------------------------

    def start(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """The line and column where a node begins; a decorated definition begins at its first decorator."""
        return node.lineno, self._column(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """The line and column just behind a node."""
        line, offset = node.end_lineno or node.lineno, node.end_col_offset or 0
        return line, self._column(line, offset)

    def _column(self, line: int, offset: int) -> int:
        text = self.lines[line - 1]
        return 1 + (offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore")))

    def text(self, node: ast.expr) -> str:
        """How an expression is written; on one line, where it fills several."""
        (line, column), (last, stop) = self.start(node), self.end(node)
        if line == last:
            return self.lines[line - 1][column - 1 : stop - 1]
        return ast.unparse(node)

    # --- what stands at a place ------------------------------------------------------------------------------

    def statement(self, site: Site) -> ast.stmt | None:
        """The innermost statement that a place lies in."""
        found: ast.stmt | None = None
        block: Block = self.tree.body
        while True:
            inner = next((s for s in block if self._holds(s, site)), None)
            if inner is None:
                return found
            found = inner
            block = [s for part in blocks_of(inner) for s in part]

    def _holds(self, statement: ast.stmt, site: Site) -> bool:
        first = min((d.lineno for d in getattr(statement, "decorator_list", ())), default=0)
        start = (first, 1) if first else self.start(statement)
        return start <= (site.line, site.column) < self.end(statement)

    def call(self, site: Site) -> ast.Call | None:
        """The call that fills a place exactly."""
        statement = self.statement(site)
        wanted = (site.line, site.column), (site.end_line, site.end_column)
        for node in ast.walk(statement) if statement else ():
            if isinstance(node, ast.Call) and (self.start(node), self.end(node)) == wanted:
                return node
        return None

    # --- structure --------------------------------------------------------------------------------------------

    def block(self, statement: ast.stmt) -> Block:
        """The list of statements that one stands in."""
        return self._blocks[statement]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around a node."""
        return self._parents.get(node)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, innermost first."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def function(self, node: ast.AST) -> Function:
        """The innermost function around a node; the module where there is none."""
        return next((a for a in self.above(node) if isinstance(a, Function)), self.tree)

    def owner(self, node: ast.AST) -> ast.ClassDef | None:
        """The class whose method a node stands in."""
        function = self.function(node)
        parent = self._parents.get(function)
        return parent if isinstance(parent, ast.ClassDef) else None

    def enclosing(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node within its function, innermost first."""
        for around in self.above(node):
            if isinstance(around, Function):
                return
            yield around

    def ancestor_in(self, block: Block, node: ast.AST) -> ast.stmt | None:
        """The statement of a block that a node is, or stands in."""
        for around in (node, *self.above(node)):
            if isinstance(around, ast.stmt) and self._blocks.get(around) is block:
                return around
        return None

    # --- lines ------------------------------------------------------------------------------------------------

    def span(self, statement: ast.stmt) -> tuple[int, int]:
        """The first and last line of a statement, its decorators included."""
        first = min((d.lineno for d in getattr(statement, "decorator_list", ())), default=statement.lineno)
        return first, statement.end_lineno or statement.lineno

    def is_alone(self, statement: ast.stmt) -> bool:
        """Whether nothing but a comment shares a statement's lines."""
        first, column = self.start(statement)
        last, stop = self.end(statement)
        if self.lines[self.span(statement)[0] - 1][: column - 1].strip() and first == self.span(statement)[0]:
            return False
        rest = self.lines[last - 1][stop - 1 :].strip()
        return not rest or rest.startswith("#")

    def indent(self, statement: ast.stmt) -> str:
        """The white space before a statement."""
        text = self.lines[statement.lineno - 1]
        return text[: len(text) - len(text.lstrip())]

    def unit(self, near: ast.stmt) -> str:
        """By how much the file indents: as the block around a statement, or else its first block, does."""
        for node in (*self.above(near), *ast.walk(self.tree)):
            for block in blocks_of(node):
                if isinstance(node, ast.stmt) and block and block[0].lineno > node.lineno:
                    deeper = self.indent(block[0]).removeprefix(self.indent(node))
                    if deeper:
                        return deeper
        return "    "

    def fixed_lines(self, statement: ast.stmt) -> frozenset[int]:
        """The lines within strings of several lines: no edit may indent them."""
        return frozenset(
            line
            for node in ast.walk(statement)
            if isinstance(node, ast.JoinedStr)
            or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)))
            for line in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
        )


def blocks_of(node: ast.AST) -> list[Block]:
    """The lists of statements directly in a node, in order."""
    found: list[Block] = []
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        part = getattr(node, name, None)
        if not isinstance(part, list):
            continue
        if part and isinstance(part[0], ast.stmt):
            found.append(part)
        elif part and isinstance(part[0], (ast.ExceptHandler, ast.match_case)):
            found += [inner.body for inner in part]
    return found
