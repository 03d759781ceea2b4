"""Ways through the core: all nodes under some, and what names and classes are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

from ampcheck.program.nodes import Attribute, Call, ClassDef, Import, Keyword, Name, Node, Parameter
from ampcheck.program.programs import Module

__all__ = ["children", "dotted", "imports_of", "is_record", "walk"]

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
