"""What a file's top-level statements bind and mention, by the standard library's cheap parse.

Names decide, without regard to scope or flow.  The outline is what `ampcheck.lowering.select` picks by, and what
`ampcheck.project` follows imports by.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ampcheck.lowering.piece import Piece
from ampcheck.lowering.telling import is_mute
from ampcheck.source import Source

__all__ = ["Outline", "outline"]


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


def outline(source: Source) -> Outline:
    """The outline of a file; empty where only libcst can read it."""
    if source.tree is None:
        return Outline()
    pieces = tuple(map(_piece, source.tree.body))
    imports: dict[str, str] = {}
    stars: list[str] = []
    for node in ast.walk(source.tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    top = alias.name.split(".")[0]
                    imports.setdefault(alias.asname or top, alias.name if alias.asname else top)
            case ast.ImportFrom(module=module, names=names, level=level):
                prefix = "." * level + (module or "")
                joined = prefix if prefix.endswith(".") or not prefix else f"{prefix}."
                for alias in names:
                    if alias.name == "*":
                        stars.append(prefix)
                    else:
                        imports.setdefault(alias.asname or alias.name, joined + alias.name)
    # What goes by another name here (``DistributedDataParallel as DDP``) is mentioned by its own name too.
    origins = {name: dotted.rsplit(".", 1)[-1] for name, dotted in imports.items()}
    pieces = tuple(
        replace(piece, used=piece.used | {origins[name] for name in piece.used if name in origins})
        for piece in pieces
    )
    exports: dict[str, Piece] = {}
    for piece in pieces:
        if not piece.is_import:
            exports.update(dict.fromkeys(piece.bound, piece))
    return Outline(pieces, imports, tuple(stars), exports)


def _piece(statement: ast.stmt) -> Piece:
    bound: set[str] = set()
    used: set[str] = set()
    imported: set[str] = set()
    steps = False
    for node in _walk(statement):
        if isinstance(node, ast.Name):
            (bound if isinstance(node.ctx, ast.Store) else used).add(node.id)
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
            steps = steps or node.attr == "grad"
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
    return Piece(statement, frozenset(bound), frozenset(used), steps, frozenset(imported))


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
