"""What of the code is looked at, apart from the paths."""

from __future__ import annotations

import argparse

from ampcheck.options.groups import group

__all__ = ["add"]


def add(parser: argparse.ArgumentParser) -> None:
    """Changes since a revision, and the name of what comes from standard input."""
    files = group(parser, "file selection")
    files.add_argument(
        "--since",
        metavar="REV",
        type=_revision,
        help="only findings whose witness touches lines changed since the work branched off from this git revision",
    )
    files.add_argument(
        "--stdin-filename",
        metavar="FILE",
        help="the name that standard input (the path `-`) is checked under",
    )


def _revision(text: str) -> str:
    """A revision for git to find; in CI, an empty one is a variable that is not set."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the revision is empty: is its variable set?")
    return text
