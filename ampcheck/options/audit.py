"""Where a page goes, and whether its findings are replayed."""

from __future__ import annotations

import argparse

__all__ = ["add", "add_replay"]


def add(parser: argparse.ArgumentParser) -> None:
    """The file of the page."""
    parser.add_argument(
        "--output",
        metavar="FILE",
        default="ampcheck-audit.html",
        help="the page, - for standard output (default: ampcheck-audit.html)",
    )


def add_replay(parser: argparse.ArgumentParser) -> None:
    """The replay as an addition."""
    parser.add_argument("--replay", action="store_true", help="replay the findings too, and show the figures")
