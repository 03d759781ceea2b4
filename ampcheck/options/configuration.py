"""What there is to see of the settings, instead of a check."""

from __future__ import annotations

import argparse

from ampcheck.options.groups import group

__all__ = ["add"]


def add(parser: argparse.ArgumentParser) -> None:
    """The settings and the files."""
    shown = group(parser, "settings").add_mutually_exclusive_group()
    shown.add_argument(
        "--show-settings", action="store_true", help="show the settings of the paths, and stop"
    )
    shown.add_argument(
        "--show-files", action="store_true", help="list the files that would be checked, and stop"
    )
