"""What a file's top-level statements bind and mention, by the standard library's cheap parse.

Names decide, without regard to scope or flow.  The outline is what `ampcheck.lowering.select` picks by, and what
`ampcheck.project` follows imports by.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter

from ampcheck.lowering.piece import Piece
from ampcheck.lowering.telling import is_mute
from ampcheck.source import Source
from ampcheck.syntax import annotated_as

__all__ = ["Glance", "Outline", "glance", "outline"]


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """A file's pieces in order; `imports` maps bound names to dotted origins (relative ones keep their dots).

    `stars` are the modules of ``from x import *``; `exports` what top-level names stand for, by piece.
    """

    pieces: tuple[Piece, ...] = ()
    imports: dict[str, str] = field(default_factory=dict)
    stars: tuple[str, ...] = ()
    exports: dict[str, Piece] = field(default_factory=dict)

    def reachable(self, names: frozenset[str]) -> list[Piece]:
        """The pieces that the definitions of some names refer to, however indirectly, in source order.

        Networks are left out: a step sees them from the outside.
        """
        picked: set[int] = set()
        wanted = set(names)
        grew = True
        while grew:
            grew = False
            for index, piece in enumerate(self.pieces):
                if index in picked or piece.is_import or not piece.gives(wanted):
                    continue
                if not is_mute(piece):
                    picked.add(index)
                    wanted |= piece.used
                    grew = True
        return [self.pieces[index] for index in sorted(picked)]


@dataclass(frozen=True, slots=True)
class Glance:
    """What a top-level statement tells by itself, see `Piece`; `imports` and `stars` with how deep inside they are."""

    bound: frozenset[str]
    used: frozenset[str]
    steps: bool
    imported: frozenset[str]
    imports: tuple[tuple[int, str, str], ...]
    stars: tuple[tuple[int, str], ...]
    declared: frozenset[str]


def outline(source: Source, look: Callable[[ast.stmt], Glance] | None = None) -> Outline:
    """The outline of a file; empty where only libcst can read it.  `look` stands in for `glance`."""
    if source.tree is None:
        return Outline()
    glances = [(statement, (look or glance)(statement)) for statement in source.tree.body]
    # The outermost first: an import in a function does not hide one of the module.
    found = sorted((one for _, seen in glances for one in seen.imports), key=itemgetter(0))
    imports: dict[str, str] = {}
    for _, bound, dotted in found:
        imports.setdefault(bound, dotted)
    stars = sorted((star for _, seen in glances for star in seen.stars), key=itemgetter(0))
    # What goes by another name here (``DistributedDataParallel as DDP``) is mentioned by its own name too.
    origins = {name: dotted.rsplit(".", 1)[-1] for name, dotted in imports.items()}
    renamed = {name for name, origin in origins.items() if name != origin}
    pieces: list[Piece] = []
    for statement, seen in glances:
        others = {origins[name] for name in seen.used & renamed}
        used = seen.used | others if others else seen.used
        pieces.append(Piece(statement, seen.bound, used, seen.steps, seen.imported, seen.declared))
    exports: dict[str, Piece] = {}
    for piece in pieces:
        if not piece.is_import:
            exports.update(dict.fromkeys(piece.bound, piece))
    return Outline(tuple(pieces), imports, tuple(prefix for _, prefix in stars), exports)


def glance(statement: ast.stmt) -> Glance:
    """What a top-level statement tells by itself."""
    bound: set[str] = set()
    used: set[str] = set()
    imported: set[str] = set()
    declared: set[str] = set()
    steps = False
    for node in _walk(statement):
        if isinstance(node, ast.Name):
            (bound if isinstance(node.ctx, ast.Store) else used).add(node.id)
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
            steps = steps or node.attr == "grad"
        elif isinstance(node, ast.arg):
            declared.add(annotated_as(node.annotation))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            # A diffusion's sampler is stepped with what it denoises.
            steps = steps or (node.func.attr == "step" and len(node.args) <= 2)
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            bound = {name}
        case ast.If() | ast.Try() | ast.With():
            bound |= {
                inner.name
                for inner in ast.walk(statement)
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            }
            imported = {
                alias.asname or alias.name.split(".")[0]
                for inner in ast.walk(statement)
                if isinstance(inner, (ast.Import, ast.ImportFrom))
                for alias in inner.names
            }
    imports, stars = _imports(statement)
    return Glance(
        frozenset(bound),
        frozenset(used),
        steps,
        frozenset(imported),
        imports,
        stars,
        frozenset(declared - {""}),
    )


def _imports(statement: ast.stmt) -> tuple[tuple[tuple[int, str, str], ...], tuple[tuple[int, str], ...]]:
    """The names that imports bind, and the modules of star imports, each with its depth, outermost first."""
    imports: list[tuple[int, str, str]] = []
    stars: list[tuple[int, str]] = []
    level: list[ast.AST] = [statement]
    depth = 0
    while level:
        for node in level:
            match node:
                case ast.Import(names=names):
                    for alias in names:
                        top = alias.name.split(".")[0]
                        imports.append((depth, alias.asname or top, alias.name if alias.asname else top))
                case ast.ImportFrom(module=module, names=names, level=dots):
                    prefix = "." * dots + (module or "")
                    joined = prefix if prefix.endswith(".") or not prefix else f"{prefix}."
                    for alias in names:
                        if alias.name == "*":
                            stars.append((depth, prefix))
                        else:
                            imports.append((depth, alias.asname or alias.name, joined + alias.name))
        level = [
            child for node in level if not isinstance(node, ast.expr) for child in ast.iter_child_nodes(node)
        ]
        depth += 1
    return tuple(imports), tuple(stars)


def _walk(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, annotations left out: they name what something is, not what is done with it."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns"):
                continue
            if isinstance(value, ast.AST):
                stack.append(value)
            elif isinstance(value, list):
                stack += [item for item in value if isinstance(item, ast.AST)]
