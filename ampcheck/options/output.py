"""How findings are shown, and what they do to the exit code."""

from __future__ import annotations

import argparse

__all__ = ["add"]


def add(parser: argparse.ArgumentParser) -> None:
    """The format and the exit code."""
    parser.add_argument("--format", choices=("text", "concise", "json"), default="text", help="default: text")
    parser.add_argument("--exit-zero", action="store_true", help="exit 0 whatever is found")
