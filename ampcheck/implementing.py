"""Which classes of a project can stand behind an abstract one that a function is handed.

A callback is given its runner, and the runner has an engine that is declared by an abstract class
(``runner.engine.backward_loss(loss)``): what that does stands in the classes that derive from it, in other files.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ampcheck.importers import Importers
from ampcheck.lowering.telling import bases_of
from ampcheck.program import Link
from ampcheck.project import Project
from ampcheck.syntax import annotated_as

__all__ = ["Handed", "Implementing"]

# So many implementations are tried, those nearest to the abstract class first.
MOST = 12

# By parameter, its annotation and an attribute: the class declared there, and the methods that are asked of it.
Asked = dict[tuple[str, str, str], tuple[Link, set[str]]]


@dataclass(frozen=True, slots=True)
class Handed:
    """Who can stand behind ``parameter.attribute`` (``parameter`` itself where that is "").

    `annotation` is how the parameter is declared: another of the same name may be something else.  `methods` are those
    that are asked of it; `left_out`: more could than are tried.
    """

    parameter: str
    annotation: str
    attribute: str
    methods: frozenset[str]
    classes: tuple[Link, ...]
    left_out: bool = False


@dataclass(slots=True)
class Implementing:
    """Finds implementations; the classes of a project are looked up once."""

    project: Project
    importers: Importers
    _found: dict[str, tuple[Handed, ...]] = field(default_factory=dict)

    def of(self, path: str) -> tuple[Handed, ...]:
        """What the functions of a file are handed whose implementation stands elsewhere, and is part of a step."""
        if path not in self._found:
            self._found[path] = tuple(self._search(path))
        return self._found[path]

    def _search(self, path: str) -> Iterator[Handed]:
        asked: Asked = {}
        for piece in self.project.outline(path).pieces:
            links = {name: self._declared(path, name) for name in piece.declared}
            if not any(links.values()):
                continue
            for node in ast.walk(piece.statement):
                if isinstance(node, ast.FunctionDef):
                    for given in node.args.args:
                        declared = links.get(annotated_as(given.annotation))
                        if declared is not None:
                            self._ask(node, given, declared, asked)
        for (parameter, annotation, attribute), (link, methods) in asked.items():
            abstract = frozenset(methods & _abstract_methods(self._class(link)))
            if not abstract:
                continue
            classes = [one for one in self._deriving(link) if self._implements(one, abstract)]
            if classes:
                tried = tuple(classes[:MOST])
                yield Handed(parameter, annotation, attribute, abstract, tried, len(classes) > MOST)

    def _ask(
        self,
        function: ast.FunctionDef,
        given: ast.arg,
        declared: Link,
        asked: Asked,
    ) -> None:
        """Note what a function calls on a parameter, and on the attributes that its class declares."""
        parameter, annotation = given.arg, annotated_as(given.annotation)
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if name == parameter:
                    asked.setdefault((parameter, annotation, ""), (declared, set()))[1].add(method)
                case ast.Call(
                    func=ast.Attribute(
                        value=ast.Attribute(value=ast.Name(id=name), attr=attribute), attr=method
                    )
                ) if name == parameter:
                    own = _attribute_annotation(self._class(declared), attribute)
                    link = self._declared(declared.path, annotated_as(own))
                    if link is not None:
                        asked.setdefault((parameter, annotation, attribute), (link, set()))[1].add(method)

    def _declared(self, path: str, name: str) -> Link | None:
        """The class of the project that an annotation names."""
        link = self.project.spelled_as(path, name) if name else None
        return link if link is not None and self._class(link) is not None else None

    def _class(self, link: Link) -> ast.ClassDef | None:
        piece = self.project.outline(link.path).exports.get(link.name) if link.name else None
        statement = piece.statement if piece is not None else None
        return statement if isinstance(statement, ast.ClassDef) else None

    def _deriving(self, link: Link) -> list[Link]:
        """The classes that derive from one, directly or not, nearest first."""
        found: list[Link] = []
        pending = [link]
        while pending:
            base = pending.pop(0)
            for path in self.importers.inheriting(base.path, base.name):
                for name, piece in self.project.outline(path).exports.items():
                    one = Link(path, name)
                    if one in found or one == link or not piece.is_class or name != _name(piece.statement):
                        continue
                    if any(self.project.spelled_as(path, text) == base for text in bases_of(piece)):
                        found.append(one)
                        pending.append(one)
        return found

    def _implements(self, link: Link, methods: frozenset[str]) -> bool:
        """Whether a class itself says how one of the methods goes, and that is part of a training step."""
        cls = self._class(link)
        own = _methods(cls)
        return bool(methods & own.keys()) and self.project.is_eventful(link.path, link.name)


def _name(statement: ast.stmt) -> str:
    return statement.name if isinstance(statement, ast.ClassDef) else ""


def _methods(cls: ast.ClassDef | None) -> Mapping[str, ast.FunctionDef]:
    return {n.name: n for n in cls.body if isinstance(n, ast.FunctionDef)} if cls is not None else {}


def _abstract_methods(cls: ast.ClassDef | None) -> set[str]:
    """The methods that say nothing but that there is one."""
    return {name for name, method in _methods(cls).items() if all(map(_is_empty, method.body))}


def _is_empty(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Raise(exc=exc) if exc is not None:
            return "NotImplementedError" in ast.unparse(exc)
        case _:
            return False


def _attribute_annotation(cls: ast.ClassDef | None, attribute: str) -> ast.expr | None:
    """How a class declares an attribute: in its body, in a method, or as a property."""
    for node in ast.walk(cls) if cls is not None else ():
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if name == attribute:
                return annotation
            case ast.AnnAssign(
                target=ast.Attribute(value=ast.Name(id="self"), attr=name), annotation=annotation
            ) if name == attribute:
                return annotation
            case ast.FunctionDef(name=name, returns=annotation) if (
                name == attribute and annotation is not None
            ):
                return annotation
    return None
