"""What is to be changed in the checked files."""

from __future__ import annotations

import argparse

from ampcheck.options.groups import group

__all__ = ["add"]


def add(parser: argparse.ArgumentParser) -> None:
    """Fixes: applied, shown as a difference, or named in the report."""
    fixes = group(parser, "fixes")
    what = fixes.add_mutually_exclusive_group()
    what.add_argument(
        "--fix", action="store_true", help="apply the fixes that the replay has proven (needs torch)"
    )
    what.add_argument(
        "--diff", action="store_true", help="show what --fix would change, and exit 1 if that is anything"
    )
    what.add_argument("--show-fixes", action="store_true", help="look for fixes and name them in the report")
    fixes.add_argument(
        "--unsafe-fixes", action="store_true", help="with --fix or --diff: also those that are not proven"
    )
