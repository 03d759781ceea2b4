"""Lowered statements as they are with some lines more or less above them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from ampcheck import program as p
from ampcheck.events import Site

__all__ = ["moved"]


def moved(statements: Sequence[p.Stmt], lines: int) -> list[p.Stmt]:
    """The statements some lines farther down (up, where the number is negative); they themselves, where it is 0."""
    return [_moved(statement, lines) for statement in statements] if lines else list(statements)


def _moved(value: Any, lines: int) -> Any:
    match value:
        case Site():
            return replace(value, line=value.line + lines, end_line=value.end_line + lines)
        case p.Node() | p.Keyword() | p.Parameter():
            return type(value)(*(_moved(getattr(value, f.name), lines) for f in fields(value)))
        case tuple():
            return tuple(_moved(item, lines) for item in value)
        case _:
            return value
