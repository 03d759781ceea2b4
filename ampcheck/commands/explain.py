"""`ampcheck explain`: the page of one rule."""

from __future__ import annotations

import sys
from argparse import Namespace

from ampcheck import pages, registry
from ampcheck.commands.exits import CLEAN
from ampcheck.report.line import console, is_coloured

__all__ = ["run"]


def run(options: Namespace) -> int:
    """Print the page, rendered where there is a terminal."""
    page = pages.page(registry.find(options.rule, registry.load()))
    if is_coloured(sys.stdout):
        from rich.markdown import Markdown

        console(sys.stdout).print(Markdown(page))
    else:
        print(page, end="")
    return CLEAN
