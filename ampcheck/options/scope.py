"""What of the code is looked at, apart from the paths."""

from __future__ import annotations

import argparse

__all__ = ["add"]


def add(parser: argparse.ArgumentParser) -> None:
    """Changes since a revision, and the name of what comes from standard input."""
    parser.add_argument(
        "--since",
        metavar="REV",
        help="only findings whose witness touches lines changed since the work branched off from this git revision",
    )
    parser.add_argument(
        "--stdin-filename",
        metavar="FILE",
        help="the name that standard input (the path `-`) is checked under",
    )
