"""What is checked, and by which rules."""

from __future__ import annotations

import argparse

__all__ = ["add"]


def add(parser: argparse.ArgumentParser) -> None:
    """Paths, rules, and how sure a finding must be."""
    parser.add_argument(
        "paths", metavar="PATHS", nargs="*", default=["."], help="files and folders (default: .)"
    )
    for option, about in (
        ("--select", "only these rules: codes, names or prefixes such as AMP1, with commas between"),
        ("--ignore", "all but these rules"),
    ):
        parser.add_argument(option, metavar="RULES", type=_codes, action="extend", default=[], help=about)
    parser.add_argument("--possible", action="store_true", help="also show what only may be a fault")


def _codes(text: str) -> list[str]:
    return [part for part in (part.strip() for part in text.split(",")) if part]
