"""What is done with findings that are known and stay for now."""

from __future__ import annotations

import argparse

from ampcheck.options.groups import group

__all__ = ["add", "add_writing"]


def add(parser: argparse.ArgumentParser) -> None:
    """The baseline."""
    group(parser, "known findings").add_argument(
        "--baseline",
        metavar="FILE",
        help="leave out the findings that this file knows (default: that of the settings)",
    )


def add_writing(parser: argparse.ArgumentParser) -> None:
    """What makes findings known."""
    writing = group(parser, "known findings").add_mutually_exclusive_group()
    writing.add_argument(
        "--write-baseline",
        action="store_true",
        help="put what is found into the baseline, instead of showing it",
    )
    writing.add_argument(
        "--add-ignores",
        action="store_true",
        help="write a comment `# ampcheck: ignore[...]` for what is found, instead of showing it",
    )
