"""What is checked, by which rules, and whose settings hold."""

from __future__ import annotations

import argparse

from ampcheck.options.groups import group

__all__ = ["add"]


def add(parser: argparse.ArgumentParser) -> None:
    """Paths, rules and how sure a finding must be, the files passed over, and the settings file."""
    parser.add_argument(
        "paths", metavar="PATHS", nargs="*", default=["."], help="files and folders (default: .)"
    )
    rules = group(parser, "rule selection")
    for option, about in (
        ("--select", "only these rules: codes, names or prefixes such as AMP1, with commas between"),
        ("--extend-select", "these rules too"),
        ("--ignore", "all but these rules"),
    ):
        rules.add_argument(option, metavar="RULES", type=_codes, action="extend", default=[], help=about)
    rules.add_argument("--possible", action="store_true", help="also show what only may be a fault")
    files = group(parser, "file selection")
    files.add_argument(
        "--exclude",
        metavar="PATTERNS",
        type=_codes,
        action="extend",
        default=[],
        help="files and folders to pass over, as in a .gitignore, with commas between",
    )
    files.add_argument(
        "--force-exclude", action="store_true", help="pass over excluded files also where they are named here"
    )
    files.add_argument("--no-gitignore", action="store_true", help="also check what git ignores")
    source = group(parser, "settings").add_mutually_exclusive_group()
    source.add_argument(
        "--config",
        metavar="FILE",
        help="the settings file for everything, instead of the nearest of each file",
    )
    source.add_argument("--isolated", action="store_true", help="read no settings file")


def _codes(text: str) -> list[str]:
    return [part for part in (part.strip() for part in text.split(",")) if part]
