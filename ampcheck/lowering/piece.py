"""A top-level statement of a file, by its names."""

from __future__ import annotations

import ast
from dataclasses import dataclass

__all__ = ["Piece"]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A top-level statement: the names it binds there, and all the names and attributes it mentions.

    `imported` are the names that imports inside it bind (``try: from apex import amp``).
    `steps` says that something's ``step`` is called or its gradients are asked for: else, ``step`` is a number.
    `declared` are the names, in quotes or not, that annotate the parameters of functions in it.
    """

    statement: ast.stmt
    bound: frozenset[str]
    used: frozenset[str]
    steps: bool = False
    imported: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()

    def gives(self, names: set[str]) -> bool:
        """Whether it binds one of some names, in whatever way."""
        return not (self.bound.isdisjoint(names) and self.imported.isdisjoint(names))

    @property
    def is_import(self) -> bool:
        """Whether it is an import."""
        return isinstance(self.statement, (ast.Import, ast.ImportFrom))

    @property
    def is_definition(self) -> bool:
        """Whether it is a function or a class."""
        return isinstance(self.statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))

    @property
    def is_class(self) -> bool:
        """Whether it is a class."""
        return isinstance(self.statement, ast.ClassDef)

    @property
    def lines(self) -> int:
        """How many lines it takes."""
        return (self.statement.end_lineno or self.statement.lineno) - self.statement.lineno + 1
