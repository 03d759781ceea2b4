"""Which functions' bodies a piece of work has looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ampcheck.program.nodes import FunctionDef

__all__ = ["noting_bodies"]

_looked_at: ContextVar[set[FunctionDef] | None] = ContextVar("looked_at", default=None)
_BODY: Any = vars(FunctionDef)["body"]


def _body(function: FunctionDef) -> Any:
    seen = _looked_at.get()
    if seen is not None:
        seen.add(function)
    return _BODY.__get__(function)


# A property in the slot's place: no reader of bodies can be forgotten.
FunctionDef.body = property(_body, _BODY.__set__)  # type: ignore[assignment]


@contextmanager
def noting_bodies() -> Iterator[set[FunctionDef]]:
    """The functions whose bodies are looked at meanwhile: nothing else of them can matter to what is done."""
    seen: set[FunctionDef] = set()
    before = _looked_at.set(seen)
    try:
        yield seen
    finally:
        _looked_at.reset(before)
