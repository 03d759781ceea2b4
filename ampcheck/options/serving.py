"""How the language server is reached."""

from __future__ import annotations

import argparse

__all__ = ["add"]


def add(parser: argparse.ArgumentParser) -> None:
    """The transport, which there is one of."""
    parser.add_argument(
        "--stdio", action="store_true", help="standard input and output (always; editors say it)"
    )
