"""A line of output: pieces of text with their styles, printed in colour only where somebody can see it.

Source text and paths come from files that may be hostile: whatever could steer a terminal is shown escaped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["STYLES", "Line", "colour", "console", "is_coloured", "plain", "printable", "show"]

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


_COLOUR: ContextVar[str] = ContextVar("colour", default="auto")


def colour(when: str) -> None:
    """Say for the rest of the context, such as a command, whether there is colour: "always", "never" or "auto"."""
    _COLOUR.set(when)


def is_coloured(stream: TextIO) -> bool:
    """Whether there is colour in what goes to a stream: as was said, else as the environment says, else on terminals.

    NO_COLOR comes before FORCE_COLOR (https://no-color.org, https://force-color.org); empty, neither says anything.
    """
    if _COLOUR.get() != "auto":
        return _COLOUR.get() == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if force := os.environ.get("FORCE_COLOR"):
        return force != "0"
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def console(stream: TextIO, width: int | None = None, *, soft_wrap: bool = False) -> Console:
    """rich, with colour and styles only where `is_coloured` says so."""
    from rich.console import Console  # 65 ms, only where it is needed

    coloured = is_coloured(stream)
    is_plain_terminal = os.environ.get("TERM", "dumb") in ("dumb", "unknown", "")
    return Console(
        file=stream,
        width=width,
        soft_wrap=soft_wrap,
        highlight=False,
        emoji=False,
        no_color=False,
        force_terminal=coloured or None,
        color_system=("standard" if is_plain_terminal else "auto") if coloured else None,
    )


def show(lines: Iterable[Line], stream: TextIO) -> None:
    """Print lines, each as soon as it is made."""
    if not is_coloured(stream):
        stream.writelines(plain(line) + "\n" for line in lines)
        return
    from rich.text import Text

    out = console(stream, soft_wrap=True)
    for line in lines:
        out.print(Text.assemble(*((printable(text), STYLES.get(style, "")) for text, style in line)))
