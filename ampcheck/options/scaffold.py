"""What `ampcheck new` has to know of a new rule."""

from __future__ import annotations

import argparse

__all__ = ["add"]


def add(parser: argparse.ArgumentParser) -> None:
    """Its name, code and severity."""
    parser.add_argument("name", metavar="NAME", help="the fault found, such as clip-before-unscale")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--code", help="its code, such as AMP124")
    place.add_argument(
        "--series",
        type=int,
        metavar="N",
        choices=range(1, 10),
        default=1,
        help="or: the next free code of AMPNxx (default: 1)",
    )
    parser.add_argument(
        "--severity", choices=("error", "warning", "note"), default="error", help="default: error"
    )
