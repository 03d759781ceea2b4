"""Where a page goes, and whether its findings are replayed."""

from __future__ import annotations

import argparse

from ampcheck.options import output
from ampcheck.options.groups import group

__all__ = ["add", "add_device", "add_replay"]


def add(parser: argparse.ArgumentParser) -> None:
    """The file of the page."""
    output.add_file(
        group(parser, "output"),
        "--output",
        "--output-file",
        default="ampcheck-audit.html",
        help="the page, - for standard output (default: ampcheck-audit.html)",
    )


def add_replay(parser: argparse.ArgumentParser) -> None:
    """The replay as an addition."""
    group(parser, "replay").add_argument(
        "--replay", action="store_true", help="replay the findings too, and show the figures"
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """What a replay runs on."""
    group(parser, "replay").add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        metavar="DEVICE",
        help="where the tensors of a replay live: auto, cpu or cuda (default: that of the settings, else auto)",
    )
