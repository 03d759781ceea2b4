"""What is drawn in the terminal, and how."""

from __future__ import annotations

import argparse

from ampcheck.options.groups import group

__all__ = ["add"]


def add(parser: argparse.ArgumentParser) -> None:
    """Which loop, how wide, in which characters."""
    drawn = group(parser, "output")
    drawn.add_argument("--loop", metavar="NAME", help="only this function's loop")
    drawn.add_argument(
        "--width", metavar="N", type=_width, help="characters in a line (default: the terminal's)"
    )
    drawn.add_argument("--ascii", action="store_true", help="frames without box-drawing characters")


def _width(text: str) -> int:
    if not text.isdigit() or int(text) < 40:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of characters from 40")
    return int(text)
