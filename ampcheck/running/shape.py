"""What decides how a program runs, apart from where it stands.

A run reads of a program its nodes, the texts of its expressions and how its names are linked; of the places it only
asks whether two are the same.  So two programs of one shape run alike, place for place, as long as places that differ
in one differ in the other: a comment more or less, or some lines, changes no run.  The bodies of functions are parts of
their own: what no run has looked at may have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ampcheck import program as p
from ampcheck.events import Site
from ampcheck.kept import Kept

__all__ = ["Number", "Part", "Shape", "Shapes"]

NESTING = (p.If, p.For, p.While, p.With, p.Try, p.FunctionDef, p.ClassDef)


@dataclass(slots=True)
class Part:
    """Nodes and texts in order, and the nodes themselves; `function` is the one whose body it is, if any."""

    function: p.FunctionDef | None = None
    key: list[object] = field(default_factory=list)
    nodes: list[p.Node] = field(default_factory=list)

    @property
    def sites(self) -> Iterable[Site]:
        """The nodes' places."""
        return (node.site for node in self.nodes)


ModuleShape = tuple[Part, ...]
"""What stands outside of functions, with their heads, and the body of each outermost function or method."""

Number = tuple[str, int]
"""A part of a program: its module, and its place among that module's parts."""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A program's shape by module, and what its runs are given besides."""

    given: tuple[object, ...]
    modules: Mapping[str, ModuleShape]

    def numbers(self, functions: Collection[p.FunctionDef]) -> frozenset[Number]:
        """The parts that are the bodies of these functions."""
        return frozenset(
            (path, number)
            for path, parts in self.modules.items()
            for number, part in enumerate(parts)
            if part.function is not None and part.function in functions
        )

    def differing(self, other: Shape) -> frozenset[Number] | None:
        """The parts that differ in the two, all of them bodies; None where anything else does."""
        if self.given != other.given or list(self.modules) != list(other.modules):
            return None
        found: set[Number] = set()
        for path, here in self.modules.items():
            there = other.modules[path]
            if here is there:
                continue
            if len(here) != len(there) or here[0].key != there[0].key:
                return None
            found |= {(path, n) for n, (a, b) in enumerate(zip(here, there, strict=True)) if a.key != b.key}
        return frozenset(found)

    def places_in(self, other: Shape, without: Collection[Number] = ()) -> dict[Site, Site] | None:
        """Where this program's places are in another one of its shape; None where two fall together in one of them.

        Modules in which nothing has moved are left out, and so are the parts `without`.
        """
        places: dict[Site, Site] = {}
        for path, here in self.modules.items():
            there = other.modules[path]
            if here is there:
                continue
            kept = [n for n in range(len(here)) if (path, n) not in without]
            old, new = ([s for n in kept for s in parts[n].sites] for parts in (here, there))
            if old != new:
                pairs = _pairs(path, old, new)
                if pairs is None:
                    return None
                places |= pairs
        return places


def _pairs(path: str, here: Iterable[Site], there: Iterable[Site]) -> dict[Site, Site] | None:
    """The places of a module with those in another, None where they are not one to one."""
    # What has no place of its own is said to be where its file begins, there as here.
    start = Site(path, 1, 1, 1, 1)
    pairs = {start: start}
    for one, other in zip(here, there, strict=True):
        if pairs.setdefault(one, other) != other:
            return None
    return pairs if len(set(pairs.values())) == len(pairs) else None


@dataclass(slots=True)
class Shapes:
    """Finds shapes; that of a module is looked for once."""

    _modules: Kept[int, tuple[p.Module, ModuleShape]] = field(default_factory=Kept)

    def of(self, program: p.Program) -> Shape:
        """The shape of a program."""
        others = [getattr(program, f.name) for f in fields(program) if f.name not in ("main", "modules")]
        given = tuple(tuple(value.items()) if isinstance(value, dict) else value for value in others)
        modules = {path: self._module(module) for path, module in program.modules.items()}
        return Shape((program.main.path, *given), modules)

    def forget_unused(self) -> None:
        """Forget modules that are no part of any program any more."""
        self._modules.forget_unused()

    def _module(self, module: p.Module) -> ModuleShape:
        return self._modules.get(id(module), lambda: (module, _Outlining(module).shape()))[1]


class _Outlining:
    """Walks a module."""

    def __init__(self, module: p.Module) -> None:
        self.module = module
        self.outside = self.part = Part()
        self.found = [self.outside]
        self.parts: dict[object, tuple[str, ...]] = {}

    def shape(self) -> ModuleShape:
        """The module's shape."""
        # Imports count wherever they stand.
        self.part.key.append(tuple(p.imports_of(self.module).items()))
        self._add(self.module.body, None)
        return tuple(self.found)

    def _add(self, value: Any, around: Site | None) -> None:
        """Add a node or a part of one; `around` is the place whose text is in the key already."""
        key = self.part.key
        if isinstance(value, tuple):
            key.append(len(value))
            for item in value:
                self._add(item, around)
        elif isinstance(value, p.Node):
            key.append(type(value))
            site = value.site
            self.part.nodes.append(value)
            if isinstance(value, NESTING):
                around = None  # what stands in its head is looked at piece by piece
            elif around is None or not _holds(around, site):
                self._add_text(site)
                around = site
            for name in self._parts(value):
                if name == "body" and isinstance(value, p.FunctionDef) and self.part is self.outside:
                    self.part = Part(value)
                    self.found.append(self.part)
                    self._add(value.body, None)
                    self.part = self.outside
                else:
                    self._add(getattr(value, name), around)
        elif isinstance(value, (p.Keyword, p.Parameter)):
            for name in self._parts(value):
                self._add(getattr(value, name), around)
        else:
            key.append(type(value))  # for ==, 1 is True and 1.0
            key.append(value)

    def _parts(self, value: Any) -> tuple[str, ...]:
        """The names of a node's fields, without its place."""
        kind = type(value)
        if kind not in self.parts:
            self.parts[kind] = tuple(f.name for f in fields(kind) if f.name != "site")
        return self.parts[kind]

    def _add_text(self, site: Site) -> None:
        lines, key = self.module.lines, self.part.key
        first = lines[site.line - 1]
        if site.line == site.end_line:
            key.append(first[site.column - 1 : site.end_column - 1])
            return
        key.append(first[site.column - 1 :])
        key.extend(lines[site.line : site.end_line - 1])
        key.append(lines[site.end_line - 1][: site.end_column - 1])


def _holds(outer: Site, inner: Site) -> bool:
    begins = (outer.line, outer.column) <= (inner.line, inner.column)
    return begins and (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)
