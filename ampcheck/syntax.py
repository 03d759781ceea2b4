"""Small questions about the standard library's syntax tree, for what is read from the text and not run."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ampcheck.events import Site

__all__ = ["annotated_as", "called", "last_name", "site_of"]


def last_name(node: ast.expr) -> str:
    """The bare name of an object, through wrappers and containers: ``unwrap(self.model).module`` is "model"."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr="module" | "_orig_mod" | "_forward_module"):
            return last_name(value)
        case ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return last_name(value)
        case ast.Call(args=[first, *_]):
            return last_name(first)
        case ast.Call():
            return called(node)
        case ast.IfExp(body=body):
            return last_name(body)
        case _:
            return ""


def called(node: ast.Call) -> str:
    """The bare name of what is called."""
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def annotated_as(annotation: ast.expr | None) -> str:
    """The name in an annotation, in quotes or not; "" where it is anything else."""
    match annotation:
        case ast.Constant(value=str() as text):
            return text
        case ast.Name() | ast.Attribute():
            return ast.unparse(annotation)
        case _:
            return ""


def site_of(node: ast.expr, path: str, lines: Sequence[str]) -> Site:
    """A node's place, in characters where the tree counts bytes."""
    last = node.end_lineno or node.lineno
    return Site(
        path,
        node.lineno,
        _characters(lines[node.lineno - 1], node.col_offset) + 1,
        last,
        _characters(lines[last - 1], node.end_col_offset or 0) + 1,
    )


def _characters(line: str, offset: int) -> int:
    return len(line.encode()[:offset].decode(errors="ignore"))
