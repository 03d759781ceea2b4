"""On which line of a TOML file a key stands, which `tomllib` does not tell.

The file is parsed again in growing pieces: where a key turns up for the first time, there it stands.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

__all__ = ["line_of", "located"]

MISSING = object()


def line_of(text: str, path: Sequence[str], element: object = MISSING) -> int:
    """The line (from 1) of a key given by its path of tables, of an `element` of its array where one is given."""
    lines = text.split("\n")
    first = 1
    for number in range(1, len(lines) + 1):
        try:
            data = tomllib.loads("\n".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue  # in the middle of a value
        if located(data, path) is not MISSING:
            return _element_line(lines, first, number, element)
        first = number + 1
    return 1


def located(data: Any, path: Sequence[str]) -> Any:
    """The value at a path of tables; `MISSING` where there is none."""
    for name in path:
        if not isinstance(data, dict) or name not in data:
            return MISSING
        data = data[name]
    return data


def _element_line(lines: Sequence[str], first: int, last: int, element: object) -> int:
    """Where in a value of several lines an element stands; the key's line where that cannot be told."""
    if element is MISSING:
        return first
    spelled = [f'"{element}"', f"'{element}'"] if isinstance(element, str) else [str(element).lower()]
    return next((n for n in range(first, last + 1) if any(s in lines[n - 1] for s in spelled)), first)
