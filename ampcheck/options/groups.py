"""The headings that options stand under in `--help` and in `docs/cli.md`, in the order in which people need them."""

from __future__ import annotations

import argparse

__all__ = ["ORDER", "group", "in_order"]

ORDER = (
    "rule selection",
    "file selection",
    "output",
    "replay",
    "fixes",
    "known findings",
    "settings",
    "exit code",
    "miscellaneous",
)


def group(parser: argparse.ArgumentParser, title: str) -> argparse._ArgumentGroup:
    """The group of a parser under a heading of `ORDER`, made where there is none yet."""
    known = {made.title: made for made in parser._action_groups}
    return known.get(title) or parser.add_argument_group(title)


def in_order(parser: argparse.ArgumentParser) -> None:
    """Bring the groups into `ORDER`, whatever the order in which options were added, `--help` among the last."""
    parser._optionals.title = ORDER[-1]
    places = {title: place for place, title in enumerate(ORDER)}
    parser._action_groups.sort(key=lambda made: places.get(made.title or "", -1))
