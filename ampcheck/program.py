"""The small core of Python that training code is lowered to, before it is run.

Every node knows its `Site`; a node's text is cut out of the source when somebody asks for it.  What the core has
no node for becomes `Opaque` with its operands, so that nothing a value depends on is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

from ampcheck.events import Site
from ampcheck.own_names import OwnNames
from ampcheck.returns import UNTOLD, Returns

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
    "Link",
    "Module",
    "Name",
    "NamedExpr",
    "Node",
    "Opaque",
    "Parameter",
    "Program",
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
    "children",
    "dotted",
    "imports_of",
    "is_record",
    "walk",
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


@dataclass(slots=True, eq=False, repr=False)
class Module:
    """A lowered file: its statements and the source lines that texts are cut from."""

    path: str
    body: tuple[Stmt, ...]
    lines: tuple[str, ...]

    def text(self, node: Node) -> str:
        """The node's source on one line, with runs of white space folded."""
        return self.cut(node.site)

    def cut(self, site: Site) -> str:
        """The source at a site on one line."""
        if site.line == site.end_line:
            return self.lines[site.line - 1][site.column - 1 : site.end_column - 1]
        inner = self.lines[site.line : site.end_line - 1]
        first, last = self.lines[site.line - 1][site.column - 1 :], self.lines[site.end_line - 1]
        return " ".join(" ".join((first, *inner, last[: site.end_column - 1])).split())


@dataclass(frozen=True, slots=True)
class Link:
    """What an imported name stands for: a definition of another module, or that module itself (`name` is "")."""

    path: str
    name: str = ""


@dataclass(slots=True, eq=False, repr=False)
class Program:
    """A file with the modules of its project, and of library models, that it depends on.

    `links` resolves dotted names: (path of the importing file, name) for relative imports and star imports,
    ("", name) for absolute ones.
    `networks` says what the forward of a network gives back, by the file and the (dotted) name of its class there.
    `handed` names the classes that can stand behind what a function of the main file is handed, by parameter, its
    annotation and an attribute of it ("" for itself).  `packages` are the project's own, by their top-level names.
    `settings` are numbers that the project's configuration files give ("gradient_accumulation_steps", "zero_stage").
    `names` are what the project's settings say of its own wrappers.
    Library models have paths like ``<accelerate>``; `missing` says what was left out because a cap was reached.
    """

    main: Module
    modules: dict[str, Module] = field(default_factory=dict)
    links: dict[tuple[str, str], Link] = field(default_factory=dict)
    missing: str = ""
    settings: dict[str, int] = field(default_factory=dict)
    names: OwnNames = field(default_factory=OwnNames)
    networks: dict[tuple[str, str], Returns] = field(default_factory=dict)
    handed: dict[tuple[str, str, str], tuple[Link, ...]] = field(default_factory=dict)
    packages: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.modules.setdefault(self.main.path, self.main)

    def link(self, path: str, dotted: str) -> Link | None:
        """What a dotted name means in a file, None where it is not of this program."""
        return self.links.get((path if dotted.startswith(".") else "", dotted))

    def returns(self, path: str, dotted: str) -> Returns:
        """What the objects of a class give back when they are called, the class by its name in a file."""
        own = self.networks.get((path, dotted))
        return own or self.networks.get(("", dotted), UNTOLD)

    def text(self, node: Node) -> str:
        """The source of a node of any of the modules."""
        return self.modules.get(node.site.path, self.main).text(node)

    @staticmethod
    def is_model(path: str) -> bool:
        """Whether a path names a library model."""
        return path.startswith("<")


_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields(kind: type) -> tuple[str, ...]:
    """The names of the fields that may hold nodes."""
    holding = (
        f.name
        for f in fields(kind)
        if any(part in str(f.type) for part in ("Expr", "Stmt", "Keyword", "Parameter"))
    )
    names = _FIELDS[kind] = tuple(holding)
    return names


def _gather(value: Any, found: list[Node]) -> None:
    if isinstance(value, tuple):
        for item in value:
            if isinstance(item, Node):
                found.append(item)
            elif item is not None:
                _gather(item, found)
    elif isinstance(value, Node):
        found.append(value)
    elif isinstance(value, Keyword):
        found.append(value.value)
    elif isinstance(value, Parameter):
        found += [part for part in (value.default, value.annotation) if part is not None]


def children(node: Node) -> list[Node]:
    """The nodes directly inside a node, in source order."""
    found: list[Node] = []
    names = _FIELDS.get(type(node))  # the hottest place of all
    for name in _fields(type(node)) if names is None else names:
        value = getattr(node, name)
        if isinstance(value, Node):
            found.append(value)
        elif value:
            _gather(value, found)
    return found


def walk(*roots: Node) -> Iterator[Node]:
    """All nodes under the roots, the roots included, outermost first."""
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        yield node
        inner = children(node)
        inner.reverse()
        stack += inner


def is_record(cls: ClassDef) -> bool:
    """Whether a class's annotated names are the parameters of an `__init__` that nobody writes."""
    makers = [d.func if isinstance(d, Call) else d for d in cls.decorators]
    names = {d.id if isinstance(d, Name) else d.attr for d in makers if isinstance(d, Name | Attribute)}
    bases = {b.id if isinstance(b, Name) else b.attr for b in cls.bases if isinstance(b, Name | Attribute)}
    return bool(names & {"dataclass", "define", "frozen", "attrs"}) or "NamedTuple" in bases


def dotted(node: Node, imports: Mapping[str, str]) -> str | None:
    """The dotted name that an expression spells, by what its first name was imported as; None for anything else."""
    match node:
        case Name(id=name):
            return imports.get(name)
        case Attribute(value=value, attr=attr):
            owner = dotted(value, imports)
            return f"{owner}{'' if owner.endswith('.') else '.'}{attr}" if owner else None
        case _:
            return None


@lru_cache(maxsize=64)
def imports_of(module: Module) -> dict[str, str]:
    """What the names that a module imports stand for, the first import of a name first."""
    found: dict[str, str] = {}
    for node in walk(*module.body):
        if isinstance(node, Import):
            for name, origin in node.names:
                found.setdefault(name, origin)
    return found
