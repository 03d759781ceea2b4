"""The nodes of the core that training code is lowered to.

What the core has no node for becomes `Opaque` with its operands, so that nothing a value depends on is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ampcheck.events import Site

__all__ = [
    "Assert",
    "Assign",
    "Attribute",
    "AugAssign",
    "Binary",
    "BoolOp",
    "Break",
    "Call",
    "ClassDef",
    "Compare",
    "Comprehension",
    "Constant",
    "Continue",
    "Delete",
    "DictDisplay",
    "Display",
    "Expr",
    "ExprStmt",
    "For",
    "FunctionDef",
    "If",
    "IfExp",
    "Import",
    "Keyword",
    "Lambda",
    "Name",
    "NamedExpr",
    "Node",
    "Opaque",
    "Parameter",
    "Raise",
    "Return",
    "Slice",
    "Starred",
    "Stmt",
    "Subscript",
    "Try",
    "Unary",
    "While",
    "With",
    "Yield",
]


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """Anything with a place in the source."""

    site: Site


class Expr(Node):
    """An expression."""

    __slots__ = ()


class Stmt(Node):
    """A statement."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class Name(Expr):
    """A name."""

    id: str


@dataclass(slots=True, eq=False, repr=False)
class Constant(Expr):
    """A literal: number, string, None, True, False, Ellipsis."""

    value: Any


@dataclass(slots=True, eq=False, repr=False)
class Attribute(Expr):
    """``value.attr``."""

    value: Expr
    attr: str


@dataclass(slots=True, eq=False, repr=False)
class Subscript(Expr):
    """``value[index]``; several indices are Opaque."""

    value: Expr
    index: Expr


@dataclass(slots=True, eq=False, repr=False)
class Slice(Expr):
    """``lower:upper:step`` inside a subscript."""

    lower: Expr | None
    upper: Expr | None
    step: Expr | None


@dataclass(slots=True, eq=False, repr=False)
class Keyword:
    """An argument of a call: positional when `name` is "", ``*x`` and ``**x`` by `star`."""

    value: Expr
    name: str = ""
    star: str = ""


@dataclass(slots=True, eq=False, repr=False)
class Call(Expr):
    """``func(*arguments)``."""

    func: Expr
    arguments: tuple[Keyword, ...]


@dataclass(slots=True, eq=False, repr=False)
class Binary(Expr):
    """``left op right`` for arithmetic operators, spelled as in source."""

    op: str
    left: Expr
    right: Expr


@dataclass(slots=True, eq=False, repr=False)
class Unary(Expr):
    """``not x``, ``-x``, ``+x``, ``~x``."""

    op: str
    operand: Expr


@dataclass(slots=True, eq=False, repr=False)
class Compare(Expr):
    """``left op right``; a chain ``a < b < c`` becomes a BoolOp of pairs."""

    op: str
    left: Expr
    right: Expr


@dataclass(slots=True, eq=False, repr=False)
class BoolOp(Expr):
    """``a and b`` / ``a or b``."""

    op: str
    left: Expr
    right: Expr


@dataclass(slots=True, eq=False, repr=False)
class IfExp(Expr):
    """``body if test else orelse``."""

    test: Expr
    body: Expr
    orelse: Expr


@dataclass(slots=True, eq=False, repr=False)
class Display(Expr):
    """A tuple, list or set display."""

    kind: str
    items: tuple[Expr, ...]


@dataclass(slots=True, eq=False, repr=False)
class DictDisplay(Expr):
    """A dict display; a key of None is ``**value``."""

    items: tuple[tuple[Expr | None, Expr], ...]


@dataclass(slots=True, eq=False, repr=False)
class Starred(Expr):
    """``*value`` in a display or target."""

    value: Expr


@dataclass(slots=True, eq=False, repr=False)
class Comprehension(Expr):
    """A comprehension with its innermost element; `loops` are (target, iterable, conditions), outermost first."""

    kind: str
    element: Expr
    loops: tuple[tuple[Expr, Expr, tuple[Expr, ...]], ...]
    key: Expr | None = None


@dataclass(slots=True, eq=False, repr=False)
class NamedExpr(Expr):
    """``(target := value)``."""

    target: Expr
    value: Expr


@dataclass(slots=True, eq=False, repr=False)
class Yield(Expr):
    """``yield value`` (`delegate`: ``yield from value``)."""

    value: Expr | None
    delegate: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Opaque(Expr):
    """Anything else; its operands are kept."""

    operands: tuple[Expr, ...] = ()


@dataclass(slots=True, eq=False, repr=False)
class Parameter:
    """A parameter of a function; `star` is "", "*" or "**"."""

    name: str
    default: Expr | None = None
    annotation: Expr | None = None
    star: str = ""


@dataclass(slots=True, eq=False, repr=False)
class Lambda(Expr):
    """``lambda parameters: body``."""

    parameters: tuple[Parameter, ...]
    body: Expr


@dataclass(slots=True, eq=False, repr=False)
class ExprStmt(Stmt):
    """An expression as a statement."""

    value: Expr


@dataclass(slots=True, eq=False, repr=False)
class Assign(Stmt):
    """``a = b = value``, and annotated assignments (value None when only declared)."""

    targets: tuple[Expr, ...]
    value: Expr | None
    annotation: Expr | None = None


@dataclass(slots=True, eq=False, repr=False)
class AugAssign(Stmt):
    """``target op= value``."""

    target: Expr
    op: str
    value: Expr


@dataclass(slots=True, eq=False, repr=False)
class If(Stmt):
    """A conditional; match statements become chains of these."""

    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@dataclass(slots=True, eq=False, repr=False)
class For(Stmt):
    """A for loop."""

    target: Expr
    iterable: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@dataclass(slots=True, eq=False, repr=False)
class While(Stmt):
    """A while loop."""

    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@dataclass(slots=True, eq=False, repr=False)
class With(Stmt):
    """A with statement: (context, target) pairs."""

    items: tuple[tuple[Expr, Expr | None], ...]
    body: tuple[Stmt, ...]


@dataclass(slots=True, eq=False, repr=False)
class Try(Stmt):
    """A try statement; handlers keep their bodies only."""

    body: tuple[Stmt, ...]
    handlers: tuple[tuple[Stmt, ...], ...]
    orelse: tuple[Stmt, ...]
    final: tuple[Stmt, ...]


@dataclass(slots=True, eq=False, repr=False)
class Return(Stmt):
    """``return value``."""

    value: Expr | None


class Break(Stmt):
    """``break``."""

    __slots__ = ()


class Continue(Stmt):
    """``continue``."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class Raise(Stmt):
    """``raise``."""

    value: Expr | None


@dataclass(slots=True, eq=False, repr=False)
class Assert(Stmt):
    """``assert test``."""

    test: Expr


@dataclass(slots=True, eq=False, repr=False)
class Delete(Stmt):
    """``del targets``."""

    targets: tuple[Expr, ...]


@dataclass(slots=True, eq=False, repr=False)
class Import(Stmt):
    """Names bound by an import: (name, dotted origin)."""

    names: tuple[tuple[str, str], ...]


@dataclass(slots=True, eq=False, repr=False)
class FunctionDef(Stmt):
    """A function or method."""

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Stmt, ...]
    decorators: tuple[Expr, ...] = ()
    generator: bool = False


@dataclass(slots=True, eq=False, repr=False)
class ClassDef(Stmt):
    """A class."""

    name: str
    bases: tuple[Expr, ...]
    body: tuple[Stmt, ...]
    decorators: tuple[Expr, ...] = ()
