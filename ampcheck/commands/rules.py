"""`ampcheck rules`: one line a rule."""

from __future__ import annotations

import sys
from argparse import Namespace

from ampcheck import pages, registry
from ampcheck.commands.exits import CLEAN
from ampcheck.report.line import show

__all__ = ["run"]


def run(_: Namespace) -> int:
    """Print them all, in the order of their codes."""
    known = registry.load()
    width = max((len(rule.name) for rule in known), default=0)
    show(
        (
            (
                (f"{rule.code}  ", "code"),
                (f"{rule.name:<{width}}  ", ""),
                (f"{rule.severity:<7}  ", rule.severity),
                (pages.summary(rule), "dim"),
            )
            for rule in known
        ),
        sys.stdout,
    )
    return CLEAN
