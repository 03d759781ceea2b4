"""How the list of rules is shown."""

from __future__ import annotations

import argparse

__all__ = ["add"]


def add(parser: argparse.ArgumentParser) -> None:
    """The format."""
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        metavar="FORMAT",
        default="text",
        help="text or json (default: text)",
    )
