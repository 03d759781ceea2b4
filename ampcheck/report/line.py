"""A line of output: pieces of text with their styles, printed in colour only where somebody can see it.

Source text and paths come from files that may be hostile: whatever could steer a terminal is shown escaped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TextIO

__all__ = ["STYLES", "Line", "is_coloured", "plain", "printable", "show"]

Line = tuple[tuple[str, str], ...]
"""Pieces, each with a style out of `STYLES` or ""."""

STYLES = {
    "error": "bold red",
    "warning": "bold yellow",
    "note": "bold blue",
    "good": "green",
    "place": "bold",
    "code": "cyan",
    "carries": "magenta",
    "dim": "dim",
}


def printable(text: str) -> str:
    """The text with tabs widened and every other unprintable character escaped."""
    if text.isprintable():
        return text
    text = text.expandtabs(4)
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)


def plain(line: Line) -> str:
    """A line without its styles."""
    return "".join(printable(text) for text, _ in line).rstrip()


def is_coloured(stream: TextIO) -> bool:
    """Whether a stream is a terminal that wants colour (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def show(lines: Iterable[Line], stream: TextIO) -> None:
    """Print lines, each as soon as it is made."""
    if not is_coloured(stream):
        stream.writelines(plain(line) + "\n" for line in lines)
        return
    from rich.console import Console  # 65 ms, only where colour is seen
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((printable(text), STYLES.get(style, "")) for text, style in line)))
