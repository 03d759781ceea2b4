"""How deeply brackets are nested: libcst's parser crashes the process on thousands of them."""

from __future__ import annotations

__all__ = ["TOO_DEEP", "deepest"]

TOO_DEEP = 60
"""Brackets inside each other that nobody writes, in text that Python's own parser has not accepted."""


def deepest(text: str) -> int:
    """The deepest nesting of brackets, those in strings and comments counted too."""
    depth = most = 0
    for character in text:
        if character in "([{":
            depth += 1
            most = max(most, depth)
        elif character in ")]}":
            depth -= 1
    return most
